import numpy as np
import pytest
from scipy.stats import t as student

from vlbench.errors import TooFewRows
from vlbench.metrics.gains import gain, gain_over_draws, rank_p
from vlbench.metrics.intervals import unvaried
from vlbench.metrics.items import Examples

# Six items in three clusters of 1, 2 and 3.
CLUSTERS = [0, 1, 1, 2, 2, 2]
EXAMPLES = Examples([*"abcdef"], [*"123456"], [f"image {i}" for i in CLUSTERS])
CREDIT = np.array([1, 1, 0, 1, 1, 1])
DRAWS = np.array([[0, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1]])


def test_the_interval_over_draws_is_that_of_one_more_draw_by_hand():
    score = gain_over_draws("gain", CREDIT, DRAWS, EXAMPLES).score
    differences = CREDIT - DRAWS
    mean = differences.mean()
    sums = np.bincount(CLUSTERS, differences.mean(0) - mean)
    of_clusters = 3 * sums.var(ddof=1) / 6**2  # of a sum of three clusters, over six items
    of_draws = differences.mean(1).var(ddof=1) * (1 + 1 / 4)
    variance = of_clusters + of_draws
    freedom = variance**2 / (of_clusters**2 / 2 + of_draws**2 / 3)
    half = student.ppf(0.975, freedom) * variance**0.5
    assert (score.value, score.stderr) == pytest.approx((mean, variance**0.5))
    assert score.ci95 == pytest.approx((mean - half, mean + half))
    assert (score.chance, score.range, score.n) == (0, (-1, 1), 6)
    assert score.draws == pytest.approx(differences.mean(1).tolist())


@pytest.mark.parametrize(
    ("draws", "clusters"), [(DRAWS[:1], EXAMPLES.clusters), (DRAWS, ["one image"] * 6)]
)
def test_one_draw_or_one_cluster_has_no_interval(draws, clusters):
    with pytest.raises(TooFewRows, match="needs 2 images and draws or more"):
        gain_over_draws("gain", CREDIT, draws, EXAMPLES._replace(clusters=clusters))


def test_random_values_as_large_up_to_rounding_count_against_a_value():
    assert rank_p(0.3, [0.1, 0.3 - 1e-12, 0.2, 0.4]) == 3 / 5
    assert rank_p(0.5, [0.1, 0.2, 0.3]) == 1 / 4


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_gain_that_never_varies_has_the_interval_of_its_clusters_and_no_point(value):
    names = [f"{i}" for i in range(60)]
    examples = Examples(names, names, [f"{i % 3}" for i in range(60)])
    own, other = np.full(60, value), np.zeros(60)
    scores = [gain("gain", own, other, examples).score]
    scores.append(gain_over_draws("gain", own, np.stack([other, other]), examples).score)
    # At 95 % confidence up to 1 - .05^(1/3), 63 %, of other clusters may have a gain of -1 or 1.
    for score in scores:
        assert (score.value, score.stderr, score.ci95) == unvaried(value, 3, -1.0, 1.0)
        assert score.ci95[0] < 0
