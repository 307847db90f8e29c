import numpy as np
import pytest
from scipy import stats

from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.statistics import wilson
from vlbench.probes.captioning.estimates import (
    as_fraction,
    counted,
    joined,
    over_seeds,
    ratio,
    share,
)
from vlbench.results import Outcome, Score

RNG = np.random.default_rng(0)


def test_a_share_of_one_seed_has_wilsons_interval_and_no_draws():
    found = share(np.array([[1.0, 0.5, 0.0, 1.0]]))
    assert found.estimate == wilson(2.5, 4)
    assert found.score()["draws"] == []


def test_a_share_of_several_seeds_is_a_mean_of_trials():
    found = share(np.array([[1.0, 0.0], [1.0, 1.0]]))
    assert (found.estimate.value, found.score()["draws"]) == (0.75, [0.5, 1.0])


def test_the_mean_of_one_seed_has_the_bootstrap_of_its_images():
    values = RNG.normal(2, 3, size=(1, 400))
    found = over_seeds(counted(values), ratio)
    assert found.estimate.value == pytest.approx(values.mean())
    assert found.estimate.stderr == pytest.approx(stats.sem(values[0]), rel=0.1)
    low, high = found.estimate.ci95
    assert (high - low) / 2 == pytest.approx(1.96 * stats.sem(values[0]), rel=0.1)


def test_seeds_and_images_both_vary():
    values = RNG.normal(0, 1, size=(3, 500)) + np.array([[0.0], [1.0], [5.0]])
    found = over_seeds(counted(values), ratio)
    by_seed = values.mean(1)
    expected = np.sqrt(by_seed.var(ddof=1) / 3 + values.mean(0).var(ddof=1) / 500)
    assert found.draws == pytest.approx(by_seed.tolist())
    assert found.estimate.stderr == pytest.approx(expected, rel=0.01)
    half = found.estimate.ci95[1] - found.estimate.value
    assert half / found.estimate.stderr == pytest.approx(stats.t.ppf(0.975, 2), rel=0.01)


def test_a_difference_is_paired_by_image():
    before = RNG.normal(0, 100, size=300)
    found = over_seeds(counted(before + 1)[None], ratio, less=counted(before))
    assert (found.estimate.value, *found.estimate.ci95) == pytest.approx((1.0, 1.0, 1.0))


def test_the_difference_of_a_corpus_score_is_that_of_its_two_values():
    first, second = (RNG.integers(1, 9, size=(50, 10)).astype(float) for _ in range(2))
    formula = CORPORA["bleu_2"].formula
    found = over_seeds(first[None], formula, less=second)
    assert found.estimate.value == pytest.approx(formula(first.sum(0)) - formula(second.sum(0)))


def test_images_that_do_not_count_are_left_out_of_a_ratio():
    statistics = np.array([[[1.0, 1.0], [0.0, 0.0], [0.5, 1.0]]])
    assert over_seeds(statistics, ratio).estimate.value == 0.75


def test_a_seed_without_any_image_that_counts_has_no_score():
    statistics = np.array([[[1.0, 1.0]] * 3, [[0.0, 0.0]] * 3])
    assert over_seeds(statistics, ratio) is None


def test_what_does_not_vary_has_an_interval_without_width_and_wilsons_as_a_fraction():
    found = over_seeds(counted(np.ones((2, 20))), ratio)
    assert found.estimate == (1.0, 0.0, (1.0, 1.0))
    assert as_fraction(found, 20).estimate == wilson(20, 20)


def test_a_fraction_is_cut_to_its_range():
    values = np.array([[1.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0]])
    low, high = as_fraction(over_seeds(counted(values), ratio), 4).estimate.ci95
    assert (low, high) == (0.0, 1.0)


@pytest.mark.parametrize("values", [[[1.0]], [[1.0, float("nan")]]])
def test_one_image_and_what_is_no_number_are_refused(values):
    with pytest.raises(ValueError, match="images; wanted two or more, all finite"):
        over_seeds(counted(np.array(values)), ratio)


def test_parts_make_one_outcome():
    parts = [
        Outcome([Score("a", 1.0, 2)], counts={"ties": 1}, notes=["first"]),
        Outcome([Score("b", 1.0, 2)], counts={"ties": 9, "others": 2}, notes=["second"]),
    ]
    found = joined(parts, {"none": None})
    assert [score.metric for score in found.scores] == ["a", "b"]
    assert found.counts == {"ties": 1, "others": 2}
    assert found.notes == ["first", "second"]
    assert (found.artifacts, found.items) == ({}, None)
