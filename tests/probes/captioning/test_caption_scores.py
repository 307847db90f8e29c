import numpy as np
import pytest
from caption_world import captioned, references, things
from item_means import item_means

from vlbench.asking.pair_scores import other_images
from vlbench.engine import Engine
from vlbench.metrics.intervals import wilson
from vlbench.metrics.items import Examples
from vlbench.metrics.language_model import TextScorer
from vlbench.probes.captioning.caption_scores import (
    caption_scores,
    measured_share,
    metrics_part,
)
from vlbench.probes.captioning.caption_sets import Subjects, references_of
from vlbench.probes.captioning.caption_statistics import with_ones
from vlbench.probes.captioning.nouns import NounSource, find_nouns

EXAMPLES = Examples(["a", "b"], ["1", "2"])
KINDS = {
    "favourites": {
        "length": with_ones([[5, 7], [7, 9]]),
        "match_score": with_ones([[1, 2], [3, 4]]),
    },
    "ce": {"length": with_ones([[4, 4]]), "match_score": with_ones([[0, 1]])},
}


UNITS = {"match_score": "score", "perplexity": "perplexity"}


def found(kinds, units=None):
    scores = [one.score for one in caption_scores(kinds, units or UNITS, EXAMPLES)]
    return {(score.metric, score.at.get("captions")): score for score in scores}


def tables(kinds):
    every = [one.items for one in caption_scores(kinds, UNITS, EXAMPLES)]
    return [table for table in every if table is not None]


def test_each_kind_of_captions_has_its_score_and_favourites_their_gain():
    scores = found(KINDS, {"match_score": "cosine"})
    assert {key: score.value for key, score in scores.items()} == {
        ("length", "favourites"): 7.0,
        ("match_score", "favourites"): 2.5,
        ("length", "ce"): 4.0,
        ("match_score", "ce"): 0.5,
        ("length_gain", None): 3.0,
        ("match_score_gain", None): 2.0,
    }
    gain = scores["match_score_gain", None]
    assert (gain.draws, gain.chance, gain.unit, gain.n) == ([1.0, 3.0], 0.0, "cosine", 2)
    assert scores["length", "ce"].unit == "words"
    assert scores["length", "ce"].draws == []


def test_lower_perplexity_is_better():
    statistics = np.array([[[-2.0, 2.0, 0.0], [-4.0, 2.0, 1.0]]])
    score = found({"ce": {"perplexity": statistics}})["perplexity", "ce"]
    assert score.value == pytest.approx(10**1.5)
    assert not score.higher_is_better


def test_a_metric_of_evaluate_has_no_interval_and_no_items():
    own, before = np.array([[[2.0], [2.0]], [[4.0], [4.0]]]), np.array([[[1.0], [1.0]]])
    kinds = {"favourites": {"evaluate:a": own}, "ce": {"evaluate:a": before}}
    scores = found(kinds)
    score, gain = scores["evaluate:a", "favourites"], scores["evaluate:a_gain", None]
    assert (score.value, score.draws, score.n, score.ci95) == (3.0, [2.0, 4.0], 2, None)
    assert (gain.value, gain.draws, gain.unit) == (2.0, [1.0, 3.0], "score")
    assert tables(kinds) == []


def test_only_what_may_be_negative_has_an_interval_below_0():
    statistics = with_ones([[0.0, 0.1], [9.0, 9.1], [0.0, 0.2]])
    scores = found({"ce": {"length": statistics, "match_score": statistics}})
    assert scores["length", "ce"].within_limits().ci95[0] == 0.0
    assert scores["match_score", "ce"].within_limits().ci95[0] < 0


def test_the_interval_of_a_perplexity_is_on_the_scale_of_logarithms():
    # log10 perplexities 1/2 and 2, of 2 words each: 10^(5/4); a jackknife of the mean of two.
    statistics = np.array([[[-1.0, 2.0, 0.0], [-4.0, 2.0, 0.0]]])
    score = found({"ce": {"perplexity": statistics}})["perplexity", "ce"]
    low, high = score.ci95
    assert low * high == pytest.approx(score.value**2)
    assert score.within_limits().ci95[0] == 1


def test_a_score_without_a_value_is_left_out():
    assert found({"ce": {"noun_precision": np.zeros((1, 2, 2))}}) == {}


def test_n_counts_the_images_that_count():
    statistics = np.array([[[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]])
    score = found({"ce": {"noun_precision": statistics}})["noun_precision", "ce"]
    assert (score.n, score.value) == (2, 1.0)
    assert score.ci95[0] < 1


def test_items_have_the_mean_of_their_score_and_corpora_have_none():
    bleu = {"bleu_1": np.ones((1, 2, 10)), "noun_recall": np.zeros((1, 2, 2))}
    means = {}
    for table in tables({**KINDS, "ce": KINDS["ce"] | bleu}):
        means |= item_means(table)
    scores = [(*key, score.value) for key, score in found(KINDS).items()]
    assert means == {(name, ("captions", kind)): value for name, kind, value in scores if kind}


def test_a_share_of_one_seed_has_wilsons_interval_and_no_draws():
    examples = Examples([*"abcd"], [*"1234"])
    score = measured_share("ratio", {}, np.array([[1.0, 0.5, 0.0, 1.0]]), examples).score
    assert (score.value, score.stderr, score.ci95) == wilson(2.5, 4)
    assert score.draws == []


def test_a_share_of_several_seeds_is_a_mean_of_trials_and_without_chance_says_none():
    score = measured_share("ratio", {}, np.array([[1.0, 0.0], [1.0, 1.0]]), EXAMPLES).score
    assert (score.value, score.draws, score.chance) == (0.75, [0.5, 1.0], None)


DATA = captioned()
TEXT = TextScorer(DATA.splits["train"]["captions"])
NOUNS = find_nouns(DATA, Engine.for_tests(), NounSource(leave_out=["image"]))


def measured(*favourites, own=references, metrics=("bleu_1", "cider")):
    rows = captioned(own=own).splits["test"]
    before = [f"a {things(i)[0]}" for i in range(len(rows))]
    told = [[one(i) for i in range(len(rows))] for one in favourites]
    subjects = Subjects(rows, references_of(rows), before, told, before_last=told)
    found = metrics_part(subjects, NOUNS, TEXT, metrics, Engine.for_tests())
    return found, {(s.metric, s.at.get("captions")): s for s in found.scores}


@pytest.fixture(scope="module")
def long():
    """Favourites that name both things twice, and those of another seed that say nothing."""
    return measured(lambda i: "a {0} a {1} a {0} a {1}".format(*things(i)), lambda _: "there is")


def test_table_4_is_counted_over_seeds(long):
    _, scores = long
    assert scores["length", "favourites"].draws == [8.0, 2.0]
    assert scores["nouns", "favourites"].draws == [4.0, 0.0]
    assert scores["unique_nouns", "favourites"].draws == [2.0, 0.0]
    assert scores["length", "ce"].value == 2.0
    assert scores["length", "ce"].no_chance.startswith("describes the captions")
    assert scores["length_gain", None].value == 3.0
    assert scores["noun_recall", "favourites"].draws == [1.0, 0.0]
    assert scores["noun_recall", "ce"].value == 0.5
    assert scores["perplexity", "favourites"].value > scores["perplexity", "reference"].value


def test_the_floor_is_what_captions_score_with_the_references_of_another_image(long):
    _, scores = long
    named = [things(i)[0] in things(j) for i, j in enumerate(other_images(16, 0))]
    floor = scores["noun_recall", "ce"].floors["another_image"]
    assert floor == pytest.approx(sum(named) / 16 / 2)
    assert scores["cider", "reference"].floors["another_image"] < scores["cider", "reference"].value


def test_captions_without_nouns_are_counted_and_the_ceiling_is_one_reference_to_the_others(long):
    found, scores = long
    assert found.counts["favourites_without_nouns"] == 16
    assert ("noun_precision", "favourites") not in scores
    assert scores["noun_precision", "ce"].value == 1.0
    assert scores["noun_precision", "reference"].value == 1.0
    assert scores["bleu_1", "reference"].n == 16
    assert found.counts["images_with_one_reference"] == 0


def test_images_with_one_reference_are_counted_and_have_no_ceiling():
    def own(i):
        return references(i)[: 1 if i < 4 else 3]

    found, scores = measured(lambda _: "a dog", own=own)
    assert found.counts["images_with_one_reference"] == 4
    assert scores["bleu_1", "reference"].n == 12
    assert scores["bleu_1", "ce"].n == 16


def test_where_all_images_have_one_reference_there_is_no_ceiling_and_unknown_words_are_counted():
    found, scores = measured(lambda _: "quo a dog qua", own=lambda i: references(i)[:1], metrics=())
    assert {kind for _, kind in scores} == {"favourites", "ce", None}
    assert found.counts["favourites_unknown_words"] == 32
