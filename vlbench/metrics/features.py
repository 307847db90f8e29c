"""Feature matrices that cannot tell one row from another, so that every choice is a tie."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vlbench.metrics.ranking import TIED


def all_equal(features: Tensor) -> bool:
    """Return whether two or more rows of [N, D] are equal, within 1e-6 of the largest |x|."""
    low, high = features.aminmax(dim=0)
    largest = torch.maximum(low.abs(), high.abs()).amax()
    return len(features) > 1 and bool((high - low <= TIED * largest).all())


def all_parallel(features: Tensor) -> bool:
    """Return whether all rows of [N, D] are zero, or point the same or the opposite way.

    They do where every |cosine| to the first row is within 1e-6 of 1: the affinities are tied.
    """
    from sklearn.preprocessing import normalize  # noqa: PLC0415 - slow to import, for one probe

    unit = normalize(features.double().numpy(), copy=False)
    return bool((np.abs(unit @ unit[0]) >= 1 - TIED).all()) or not unit.any()
