"""Description length and control tasks: how informative the accuracy of a probe is.

The online code of Voita and Titov 2020, arXiv:2003.12298, section 3.2: labels are sent block by
block. Each block is coded by a probe trained on the blocks before it; the first is coded with
equally likely classes. A representation from which a probe learns with few examples has a short
code. Control tasks of Hewitt and Liang 2019, arXiv:1909.03368, section 2: each type, such as a
word, gets a label at random, so that a probe can only memorise it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.errors import TooFewRows, counted

# Log-probabilities [N, K], natural, of features [N, D].
Probe = Callable[[Tensor], Tensor]

# A probe trained on features [N, D] and labels int64 [N].
Fit = Callable[[Tensor, Tensor], Probe]

# Ends of the blocks, in percent of the examples.
PERCENT = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25, 50, 100)

# Tolerance of the sum of an example's probabilities, which should be 1.
SUMS_TO_ONE = 1e-3


class CodeLength(NamedTuple):
    """The code length in bits of the labels of n examples of `classes`, in total and per block.

    `examples` are the bits per example, float64 [N].
    """

    bits: float
    blocks: Sequence[float]
    n: int
    classes: int
    examples: Tensor

    @property
    def compression(self) -> float:
        """The ratio of the length of a code with equally likely classes to this code's length.

        Example:
            >>> code = CodeLength(bits=4.0, blocks=[4.0], n=4, classes=4, examples=torch.ones(4))
            >>> code.compression  # 4 * log2(4) / 4
            2.0
        """
        return self.n * math.log2(self.classes) / self.bits


def block_ends(n: int, percent: Sequence[float] = PERCENT, least: int = 1) -> list[int]:
    """Return the number of examples sent after each block, rising to n.

    A block that would end before `least` examples, or that would be empty, is part of the next.
    Raises ValueError for percentages that do not rise from above 0 to 100.

    Example:
        >>> block_ends(8, [25, 50, 100]), block_ends(8, [25, 50, 100], least=3)
        ([2, 4, 8], [4, 8])
    """
    if not percent or percent[0] <= 0 or percent[-1] != 100 or sorted({*percent}) != [*percent]:
        raise ValueError(f"percent {list(percent)}: must be rising numbers above 0, the last 100")
    ends = (round(n * share / 100) for share in percent)
    return sorted({end for end in ends if end >= least} | {n})


def online_code(
    features: Tensor, label: Tensor, classes: int, fit: Fit, ends: Sequence[int]
) -> CodeLength:
    """Return the online code of labels int64 [N] given features [N, D].

    Examples are sent in the order of their rows, which should be random. `ends` come from
    `block_ends`. Raises TooFewRows for fewer than two blocks. Raises ValueError for fewer than two
    classes, for invalid ends, for probabilities that do not sum to 1, and if a true label has
    probability 0.

    Example:
        >>> fit = lambda x, y: lambda more: torch.tensor([[0.75, 0.25]]).log().expand(len(more), 2)
        >>> code = online_code(torch.zeros(4, 1), torch.tensor([0, 1, 0, 0]), 2, fit, [2, 4])
        >>> [round(bits, 4) for bits in code.blocks]  # 2 * log2(2), 2 * log2(4 / 3)
        [2.0, 0.8301]
    """
    if classes < 2:
        raise ValueError(f"{classes} classes; a code needs 2 or more")
    if list(ends) != sorted({*ends}) or not ends or ends[0] < 1 or ends[-1] != len(label):
        raise ValueError(f"ends {list(ends)}: must be rising numbers from 1 to {len(label)}")
    if len(ends) < 2:
        raise TooFewRows(f"{counted(len(label), 'example')} in one block; 2 are needed")
    bits = [torch.full((ends[0],), math.log2(classes), dtype=torch.float64)]
    for start, stop in pairwise(ends):
        logs = fit(features[:start], label[:start])(features[start:stop]).double()
        if list(logs.shape) != [stop - start, classes]:
            raise ValueError(f"log-probabilities {list(logs.shape)} of {stop - start} x {classes}")
        if not (logs.logsumexp(1).abs() <= SUMS_TO_ONE).all():
            raise ValueError("the probabilities of an example do not sum to 1")
        of_label = logs.gather(1, label[start:stop, None])
        if not of_label.isfinite().all():
            raise ValueError(
                "a true label has probability 0; the probe must give each label a probability "
                "above 0"
            )
        bits.append(-of_label.squeeze(1) / math.log(2))
    blocks = [float(block.sum()) for block in bits]
    return CodeLength(sum(blocks), blocks, len(label), classes, torch.cat(bits))


def control_labels(types: Tensor, label: Tensor, rng: np.random.Generator) -> Tensor:
    """Return labels int64 [N] of a control task: all examples of a type [N] have the same label.

    The label of each type is drawn once, from the distribution of `label`.

    Example:
        >>> types, label = torch.tensor([7, 8, 7]), torch.tensor([0, 1, 2])
        >>> first, _, third = control_labels(types, label, np.random.default_rng(0)).tolist()
        >>> first == third
        True
    """
    _, place = np.unique(types.numpy(), return_inverse=True)
    drawn: NDArray[np.int64] = rng.choice(label.numpy(), int(place.max()) + 1)
    return torch.from_numpy(drawn[place])


def selectivity(accuracy: float, control_accuracy: float) -> float:
    """Return the accuracy at a task minus the accuracy at its control task, -1..1.

    Example:
        >>> selectivity(0.75, 0.5)
        0.25
    """
    return accuracy - control_accuracy
