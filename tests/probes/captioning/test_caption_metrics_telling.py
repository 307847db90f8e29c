import pytest
from caption_fakes import captioned, references, things

from vlbench.engine import Engine
from vlbench.probes.captioning.caption_metrics import telling_part
from vlbench.probes.captioning.caption_sets import Subjects, references_of
from vlbench.probes.captioning.controls import TextScorer
from vlbench.probes.captioning.nouns import NounSource, find_nouns

DATA = captioned()
NOUNS = find_nouns(DATA, Engine.for_tests(), NounSource(leave_out=["image"]))
TEXT = TextScorer(DATA.splits["train"])


def part(*favourites, own=references, metrics=("bleu_1", "cider")):
    rows = captioned(own=own).splits["test"]
    before = [f"a {things(i)[0]}" for i in range(len(rows))]
    told = [[one(i) for i in range(len(rows))] for one in favourites]
    subjects = Subjects(rows, references_of(rows), before, told)
    found = telling_part(subjects, NOUNS, TEXT, metrics, Engine.for_tests())
    return found, {(s.metric, s.at.get("captions")): s for s in found.scores}


@pytest.fixture(scope="module")
def long():
    """Favourites that name both things twice, and those of another seed that say nothing."""
    return part(lambda i: "a {0} a {1} a {0} a {1}".format(*things(i)), lambda _: "there is")


def test_table_4_is_counted_over_seeds(long):
    _, scores = long
    assert scores["length", "favourites"].draws == [8.0, 2.0]
    assert scores["nouns", "favourites"].draws == [4.0, 0.0]
    assert scores["unique_nouns", "favourites"].draws == [2.0, 0.0]
    assert scores["length", "ce"].value == 2.0
    assert scores["length_gain", None].value == 3.0
    assert scores["noun_recall", "favourites"].draws == [1.0, 0.0]
    assert scores["noun_recall", "ce"].value == 0.5
    assert scores["perplexity", "favourites"].value > scores["perplexity", "reference"].value


def test_captions_without_nouns_are_counted_and_have_no_precision(long):
    found, scores = long
    assert found.counts["favourites_without_nouns"] == 16
    assert ("noun_precision", "favourites") not in scores
    assert scores["noun_precision", "ce"].value == 1.0


def test_the_ceiling_is_one_reference_against_the_others(long):
    found, scores = long
    assert scores["bleu_1", "reference"].n == 16
    assert scores["noun_precision", "reference"].value == 1.0
    assert found.counts["images_with_one_reference"] == 0


def test_images_with_one_reference_are_counted_and_have_no_ceiling():
    def own(i):
        return references(i)[: 1 if i < 4 else 3]

    found, scores = part(lambda _: "a dog", own=own)
    assert found.counts["images_with_one_reference"] == 4
    assert scores["bleu_1", "reference"].n == 12
    assert scores["bleu_1", "ce"].n == 16


def test_where_all_images_have_one_reference_there_is_no_ceiling():
    _, scores = part(lambda _: "a dog", own=lambda i: references(i)[:1], metrics=())
    assert {kind for _, kind in scores} == {"favourites", "ce", None}


def test_words_that_the_training_captions_lack_are_counted():
    found, _ = part(lambda _: "quo a dog qua", metrics=())
    assert found.counts["favourites_unknown_words"] == 32
