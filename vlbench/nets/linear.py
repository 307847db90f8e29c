"""A linear probe on frozen features: cross-entropy and Adam, as in arXiv:2104.08313, section 3.3.

L2 weight decay acts on weights and bias alike. The weights are those after the last epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.ranking import Choice, choose, join_choices

# Logits computed at a time, however large the test set.
BLOCK = 1 << 20

# The weight [C, D] and the bias [C] of a linear probe.
LinearProbe = dict[str, Tensor]


class LinearTraining(NamedTuple):
    """How a linear probe is trained; the seed draws the first weights and the order of images."""

    epochs: int = 20
    batch_size: int = 60
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4
    seed: int = 0


# As in arXiv:2104.08313.
PAPER_TRAINING = LinearTraining()


def train_linear_probe_once(
    engine: Engine,
    features: Tensor,
    label: Tensor,
    size: tuple[int, int],
    training: LinearTraining,
) -> LinearProbe:
    """Return the probe trained on the same features [N, D] in every epoch, or its stored copy."""
    key = {"what": "linear probe", "features": features, "label": label, "size": size}
    where = {"device": engine.device.type}
    found: LinearProbe = engine.once(
        key | training._asdict() | where,
        lambda: train_linear_probe(
            repeat(features, training.epochs), label, size, training, engine.device
        ),
    )
    return found


def train_linear_probe(
    epochs: Iterable[Tensor],
    label: Tensor,
    size: tuple[int, int],
    training: LinearTraining,
    device: torch.device,
) -> LinearProbe:
    """Return a probe of size (C, D), trained on `device` for one epoch per item of `epochs`.

    An item holds the features [N, D] of its epoch, in the order of `label` [N]. The seed draws
    PyTorch's own initialisation of a linear layer, then the order of each epoch.
    """
    rng = torch.Generator().manual_seed(training.seed)
    linear = _initialised(*size, rng).to(device)
    adam = torch.optim.Adam(
        linear.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
    )
    for features in epochs:
        order = torch.randperm(len(label), generator=rng)
        for rows in torch.split(order, training.batch_size):
            adam.zero_grad()
            logits = linear(features[rows].to(device))
            torch.autograd.backward(cross_entropy(logits, label[rows].to(device)))
            adam.step()
    return {name: value.detach().cpu() for name, value in linear.named_parameters()}


def zero_probe(classes: int, width: int) -> LinearProbe:
    """Return the probe whose logits are all zero."""
    return {"weight": torch.zeros(classes, width), "bias": torch.zeros(classes)}


def classify(probe: LinearProbe, features: Tensor, right: Tensor) -> Choice:
    """Return the choice of the highest logit for each of [N, D] features, `right` [N] being right.

    Logits are tied within 1e-6 of |x| max |w| + max |b|, the magnitude that entered them.
    """
    weight, bias = probe["weight"], probe["bias"]
    largest, offset = weight.norm(dim=1).amax(), bias.abs().amax()
    rows = max(1, BLOCK // len(bias))
    blocks = zip(torch.split(features, rows), torch.split(right, rows), strict=True)
    return join_choices(
        [
            choose(torch.addmm(bias, x, weight.T), y, scale=x.norm(dim=1) * largest + offset)
            for x, y in blocks
        ]
    )


def require_train_images(train: Tensor, test: Tensor, classes: Sequence[str]) -> None:
    """Raise TooFewRows for a class that occurs among test labels and not among train labels."""
    n_train, n_test = (label.bincount(minlength=len(classes)) for label in (train, test))
    missing = ((n_train == 0) & (n_test > 0)).nonzero().flatten().tolist()
    if missing:
        found = f"class '{classes[missing[0]]}' has {int(n_test[missing[0]])} test images"
        rows = max(len(train) + 1, int((n_test > 0).sum()))
        raise TooFewRows(f"{found}, but no train image to learn it from", rows)


def _initialised(classes: int, width: int, rng: torch.Generator) -> nn.Linear:
    """Return a linear layer as PyTorch initialises it, but drawn from `rng`."""
    linear = nn.Linear(width, classes, device="meta").to_empty(device="cpu")
    nn.init.kaiming_uniform_(linear.weight, a=math.sqrt(5), generator=rng)
    bound = 1 / math.sqrt(width)
    nn.init.uniform_(linear.bias, -bound, bound, generator=rng)
    return linear
