"""Which of two captions of an image a matching score prefers; of tied ones, each gets one half."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vlbench.metrics.ranking import choose
from vlbench.metrics.statistics import Floats


class Preference(NamedTuple):
    """How far the first of two is preferred: credit 1, 1/2 or 0 of each image, [seeds, N].

    `chosen` is 0 for the first, 1 for the second, and -1 where both are tied.
    """

    credit: Floats
    chosen: NDArray[np.int64]

    @property
    def ties(self) -> int:
        """How many choices are tied."""
        return int((self.chosen < 0).sum())


def preference(first: Floats, second: Floats) -> Preference:
    """Return the preference between scores, each [seeds, N] or [1, N] for what no seed changes.

    Scores within 1e-6 of the larger magnitude are tied. Raises ValueError for a score that is not
    finite.
    """
    pairs = np.stack(np.broadcast_arrays(first, second), -1)
    flat = torch.from_numpy(pairs.reshape(-1, 2))
    choice = choose(flat, torch.zeros(len(flat), dtype=torch.int64))
    shape = pairs.shape[:-1]
    return Preference(choice.credit.numpy().reshape(shape), choice.chosen.numpy().reshape(shape))
