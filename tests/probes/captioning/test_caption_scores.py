import numpy as np
import pytest
from item_means import item_means

from vlbench.metrics.items import Examples
from vlbench.probes.captioning.caption_scores import (
    caption_scores,
    measured_preference,
    measured_share,
    preference,
)
from vlbench.probes.captioning.estimates import counted

EXAMPLES = Examples(["a", "b"], ["1", "2"])
KINDS = {
    "favourites": {"length": counted([[5, 7], [7, 9]]), "match_score": counted([[1, 2], [3, 4]])},
    "ce": {"length": counted([[4, 4]]), "match_score": counted([[0, 1]])},
}


def found(kinds, units=None):
    scores = [one.score for one in caption_scores(kinds, units or {}, EXAMPLES)]
    return {(score.metric, score.at.get("captions")): score for score in scores}


def tables(kinds):
    every = [one.items for one in caption_scores(kinds, {}, EXAMPLES)]
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
    scores = found({"ce": {"perplexity": statistics}}, {"perplexity": "perplexity"})
    score = scores["perplexity", "ce"]
    assert score.value == pytest.approx(10**1.5)
    assert not score.higher_is_better


def test_a_metric_of_evaluate_has_no_interval_and_no_items():
    kinds = {
        "favourites": {"evaluate:a": np.array([[[2.0], [2.0]], [[4.0], [4.0]]])},
        "ce": {"evaluate:a": np.array([[[1.0], [1.0]]])},
    }
    scores = found(kinds)
    score, gain = scores["evaluate:a", "favourites"], scores["evaluate:a_gain", None]
    assert (score.value, score.draws, score.n, score.ci95) == (3.0, [2.0, 4.0], 2, None)
    assert (gain.value, gain.draws, gain.unit) == (2.0, [1.0, 3.0], "score")
    assert tables(kinds) == []


def test_only_what_may_be_negative_has_an_interval_below_0():
    statistics = counted([[0.0, 0.1], [9.0, 9.1], [0.0, 0.2]])
    scores = found({"ce": {"length": statistics, "match_score": statistics}})
    assert scores["length", "ce"].ci95[0] == 0.0
    assert scores["match_score", "ce"].ci95[0] < 0


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
    assert means == {
        (name, ("captions", kind)): score.value
        for (name, kind), score in found(KINDS).items()
        if kind
    }


def test_a_preference_has_chance_one_half_and_says_what_was_chosen():
    chosen = preference(np.array([[2.0, 1.0]]), np.array([[1.0, 1.0], [3.0, 0.0]]))
    measured = measured_preference("prefers", {}, chosen, EXAMPLES, ("mine", "yours"))
    score = measured.score
    assert (score.value, score.chance, score.draws, score.n) == (0.625, 0.5, [0.75, 0.5], 2)
    rows = measured.items.to_pylist()
    assert [row["prediction"] for row in rows] == ["mine", None, "yours", "mine"]
    assert {row["target"] for row in rows} == {"mine"}


def test_a_share_without_chance_says_none():
    credit = np.array([[1.0, 0.0]])
    assert measured_share("ratio", {}, credit, EXAMPLES).score.chance is None


def test_the_higher_score_is_preferred_and_ties_share():
    found = preference(np.array([[1.0, 2.0, 3.0]]), np.array([[0.0, 2.0, 4.0], [1.0, 1.0, 1.0]]))
    assert found.credit.tolist() == [[1.0, 0.5, 0.0], [0.5, 1.0, 1.0]]
    assert found.chosen.tolist() == [[0, -1, 1], [-1, 0, 0]]
    assert found.ties == 2


def test_scores_of_a_saturated_head_are_tied():
    assert preference(np.array([[0.9999999]]), np.array([[1.0]])).ties == 1


def test_nan_is_no_win():
    with pytest.raises(ValueError, match="not finite"):
        preference(np.array([[np.nan]]), np.array([[0.0]]))
