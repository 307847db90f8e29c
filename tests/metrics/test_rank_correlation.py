import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from scipy.stats import kendalltau, spearmanr

from vlbench.metrics import rank_correlation as module
from vlbench.metrics.rank_correlation import kendall_deviations, ranked, spearman_deviations
from vlbench.metrics.rdm_correlation import class_draws

RULES = [(spearman_deviations, spearmanr), (kendall_deviations, kendalltau)]


def matrices(classes, noise=0.5, digits=12):
    """Return two condensed matrices of the same points, but for noise."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(classes, 5))
    both = [points + noise * rng.normal(size=points.shape) for _ in range(2)]
    return np.array([pdist(one).round(digits) for one in both])


def by_ranking_anew(pair, coefficient, draws):
    """Return the coefficient in each draw; a class with itself is no pair."""
    first, second = (squareform(one) for one in pair)
    found = []
    for draw in draws:
        classes = np.repeat(np.arange(len(first)), draw.astype(int))
        i, j = np.triu_indices(len(classes), 1)
        i, j = classes[i], classes[j]
        found.append(coefficient(first[i, j][i != j], second[i, j][i != j]).statistic)
    return np.array(found)


@pytest.mark.parametrize("digits", [12, 0])
@pytest.mark.parametrize(("deviations", "coefficient"), RULES)
def test_draws_are_spread_as_those_that_are_ranked_anew(deviations, coefficient, digits):
    pair, draws = matrices(60, digits=digits), class_draws(60, seed=1, draws=300)
    found = deviations(pair, draws)
    anew = by_ranking_anew(pair, coefficient, draws)
    assert found.shape == (2, 2, 300)
    assert np.array_equal(found[0, 1], found[1, 0])
    assert found[0, 1].std() == pytest.approx(anew.std(), rel=0.1)
    assert np.corrcoef(found[0, 1], anew)[0, 1] > 0.97


@pytest.mark.parametrize(("deviations", "_"), RULES)
def test_bins_change_the_draws_by_little(deviations, _, monkeypatch):
    pair, draws = matrices(60), class_draws(60, seed=1)
    binned = deviations(pair, draws)[0, 1]
    monkeypatch.setattr(module, "BINS", 5_000)
    exact = deviations(pair, draws)[0, 1]
    assert not np.array_equal(binned, exact)
    assert binned == pytest.approx(exact, abs=0.03 * exact.std())


@pytest.mark.parametrize(("deviations", "_"), RULES)
def test_a_constant_matrix_does_not_move(deviations, _):
    pair = np.stack([np.ones(45), matrices(10)[0]])
    assert not deviations(pair, class_draws(10, seed=0)).any()


def test_equal_distances_share_their_rank():
    found = ranked(np.array([3.0, 1.0, 3.0, 2.0]))
    assert found.bins.tolist() == [2, 0, 2, 1]
    assert found.rank.tolist() == [0.75, 0.125, 0.75, 0.375]
    assert found.untied.tolist() == [0.5, 0.75, 0.5, 0.75]
