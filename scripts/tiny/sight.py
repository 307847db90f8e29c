"""What the models of regions see of drawings: the pixels of proposals, and what these show.

Where a detector's vectors say what is in a box, pixels must be read. So the networks that read
proposals are also taught to name them, as LXMERT is (arXiv:1908.07490, section 3.1.2); the names
are those of the drawing's facts.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from tiny.world import NAMED, Examples
from vlbench.adapter_kit.regions import RegionBatch

# Numbers of a crop, and what is taken from each and what each is divided by in training.
WIDTH, MEAN, SPREAD = 768, 128.0, 64.0

# A target that does not count.
NO_REGION = -100


class Sight(NamedTuple):
    """The proposals of N images, padded to R: pixels uint8 [N, R, 768], corners [N, R, 4], mask.

    `names` int64 [N, R, 5] are their places in NAMED, NO_REGION where there is no proposal.
    """

    pixels: Tensor
    corners: Tensor
    mask: Tensor
    names: Tensor

    def show(self, rows: Tensor) -> RegionBatch:
        """Return the proposals of some images, their numbers standardised."""
        mask = self.mask[rows, : int(self.mask[rows].sum(1).max())]
        pixels, corners = (part[rows, : mask.shape[1]] for part in self[:2])
        return RegionBatch((pixels.float() - MEAN) / SPREAD, corners, mask, [])


def read(examples: Examples) -> Sight:
    """Return what is seen of examples."""
    parts: list[list[Tensor]] = [[], [], [], []]
    for one, facts in zip(examples.regions, examples.facts, strict=True):
        assert one.vectors is not None
        parts[0].append(one.vectors.byte())
        parts[1].append(one.boxes / torch.tensor([*one.size, *one.size]))
        parts[2].append(torch.ones(len(one.boxes), dtype=torch.int64))
        parts[3].append(torch.tensor(facts.names))
    padded = [pad_sequence(blocks, batch_first=True) for blocks in parts[:3]]
    return Sight(*padded, pad_sequence(parts[3], batch_first=True, padding_value=NO_REGION))


class Namer(nn.Module):
    """Names regions by their states: a softmax for each kind of NAMED."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.sizes = [len(kind) for kind in NAMED]
        self.logits = nn.Linear(width, sum(self.sizes))

    def forward(self, states: Tensor, names: Tensor) -> Tensor:
        """Return the loss of states [N, R, D] of regions with these names [N, R, 5]."""
        parts = self.logits(states).split(self.sizes, -1)
        losses = [
            cross_entropy(part.flatten(0, 1), names[..., k].flatten())
            for k, part in enumerate(parts)
        ]
        return torch.stack(losses).sum()

    def right(self, states: Tensor, names: Tensor) -> list[float]:
        """Return the share of things that are named right, of each kind."""
        parts = self.logits(states).split(self.sizes, -1)
        shares = []
        for k, part in enumerate(parts):
            own = names[..., k] > 0
            shares.append(float((part[own].argmax(-1) == names[..., k][own]).double().mean()))
        return shares


def fold(weight: Tensor, bias: Tensor, width: int = WIDTH) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a layer that does to pixels what these do to standardised ones.

    The first `width` inputs are pixels.
    """
    folded = weight.clone()
    folded[:, :width] /= SPREAD
    return folded, bias - MEAN * folded[:, :width].sum(1)
