import pytest
from caption_fakes import captioned

from vlbench.engine import Engine
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.language_model import perplexity_statistics, train_language_model
from vlbench.probes.captioning.caption_statistics import (
    caption_statistics,
    formula_of,
    noun_statistics,
)
from vlbench.probes.captioning.controls import TextScorer
from vlbench.probes.captioning.estimates import ratio
from vlbench.probes.captioning.metric_statistics import Judged
from vlbench.probes.captioning.nouns import NounSource, find_nouns

DATA = captioned()


@pytest.fixture(scope="module")
def told():
    """Return the statistics of captions whose references name dog and cat, as [N] of each."""
    nouns = find_nouns(DATA, Engine.for_tests(), NounSource(leave_out=["image"]))
    text = TextScorer(DATA.splits["train"])

    def of(*captions, references=("a dog and a cat", "a dog is there")):
        judged = Judged(list(captions), [list(references)] * len(captions))
        return caption_statistics(judged, nouns, text)

    return of


def test_words_and_nouns_are_counted_by_hand(told):
    found = told("a image of a dog", "a dog dog and a cat .", "there is", "")
    assert found["length"].tolist() == [[5, 1], [6, 1], [2, 1], [0, 1]]
    assert found["nouns"].tolist() == [[1, 1], [3, 1], [0, 1], [0, 1]]
    assert found["unique_nouns"].tolist() == [[1, 1], [2, 1], [0, 1], [0, 1]]


def test_precision_and_recall_are_of_the_nouns_that_the_references_name(told):
    found = told("a dog and a owl", "a cat dog dog", "a owl", "there is")
    assert found["noun_precision"].tolist() == [[0.5, 1], [1, 1], [0, 1], [0, 0]]
    assert found["noun_recall"].tolist() == [[0.5, 1], [1, 1], [0, 1], [0, 1]]


def test_an_image_whose_references_name_nothing_has_no_recall(told):
    found = told("a dog", references=("there is a",))
    assert found["noun_precision"].tolist() == [[0, 1]]
    assert found["noun_recall"].tolist() == [[0, 0]]


def test_perplexity_is_that_of_the_training_captions(told):
    captions = [text.split() for texts in DATA.splits["train"]["captions"] for text in texts]
    expected = perplexity_statistics(train_language_model(captions), [["a", "dog"], ["qua", "a"]])
    assert told("A dog.", "qua a")["perplexity"].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("caption", "length", "unknown"),
    [
        ("a dog\nand a cat", 5, 0),
        ("a dog ||| a cat", 4, 0),
        ("a dog\u2028a cat", 4, 0),
        ("", 0, 0),
        ("qua quo qui", 3, 3),
        ("dog " * 10_000, 10_000, 0),
    ],
)
def test_odd_captions_are_told_like_others(told, caption, length, unknown):
    found = told(caption)
    assert found["length"][0, 0] == length
    assert found["perplexity"][0, 2] == unknown
    assert CORPORA["perplexity"].formula(found["perplexity"].sum(0)) > 1


def test_a_corpus_has_its_own_formula_and_all_else_is_a_ratio():
    assert formula_of("bleu_4") is CORPORA["bleu_4"].formula
    assert formula_of("length") is ratio


def test_each_noun_counts_once():
    found = noun_statistics([frozenset({"dog", "owl"})], [frozenset({"dog", "cat", "cup"})])
    assert found["noun_precision"].tolist() == [[0.5, 1.0]]
    assert found["noun_recall"].tolist() == [[1 / 3, 1.0]]
