import numpy as np
import pytest

from vlbench.metrics.gains import gain, gain_over_draws
from vlbench.metrics.intervals import unvaried
from vlbench.metrics.items import Examples


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
