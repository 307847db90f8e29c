"""Attacks run batch by batch, so that a killed run resumes and processes share the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import Classifier, ImageEncoder
from vlbench.check import passes
from vlbench.data.records import Column
from vlbench.digests import digest
from vlbench.engine import Engine
from vlbench.probes.generalization.attacks.rpgd import Attack, perturb
from vlbench.probes.generalization.attacks.victims import Victim


class Batch(NamedTuple):
    """Images that are attacked together, numbered in the order drawn, and their classes."""

    number: int
    images: Column
    right: Tensor
    target: Tensor


class Predictions(NamedTuple):
    """Credit of a classifier's choices on N images, float64 [N], and which were tied, bool [N].

    `right` is the credit where the right class is correct, `target` where the target class is.
    `chosen` are the classes chosen, int64 [N], -1 where several are tied.
    """

    right: Tensor
    target: Tensor
    tied: Tensor
    chosen: Tensor


@dataclass(frozen=True)
class AttackRun:
    """Attacks on the same batches; the result of a batch is stored as soon as it is known."""

    model: Classifier | ImageEncoder
    victim: Victim
    batches: Sequence[Batch]
    engine: Engine

    def predictions(self, attack: Attack | None) -> Predictions:
        """Return the predictions after an attack, or, without one, on the images as they are."""

        def attacked(batches: Sequence[Batch]) -> list[Tensor]:
            return [self._one(batch, attack) for batch in batches]

        if attack:
            attacked.__name__ = f"{attack.norm} {attack.goal} {attack.epsilon:g}"
        key = {
            "what": "attack",
            "model": self.model,
            "head": self.victim.head,
            "attack": attack and attack._asdict(),
            "device": self.engine.device.type,
        }
        content = [[b.number, b.images.key, b.images.rows, b.right, b.target] for b in self.batches]
        column = Column(digest(content), "value", self.batches, range(len(self.batches)))
        parts = self.engine.map(attacked, column, key=key, one_by_one=True)
        right, target, tied, chosen = torch.cat(parts, dim=1)
        return Predictions(right, target, tied.bool(), chosen.long())

    def _one(self, batch: Batch, attack: Attack | None) -> Tensor:
        """Return the credit of the right class and of the target, ties, and choices, [4, N]."""
        pixels = pixels_of(self.model, batch, self.engine)
        right, target = (label.to(self.engine.device) for label in (batch.right, batch.target))
        if attack:
            label = right if attack.goal == "untargeted" else target
            pixels = perturb(self.victim.logits, pixels, label, attack, batch.number)
        for_right, for_target = self.victim.choices(pixels, right, target)
        rows = [for_right.credit, for_target.credit, for_right.tied, for_right.chosen]
        return torch.stack([row.double() for row in rows]).cpu()


def pixels_of(model: Classifier | ImageEncoder, batch: Batch, engine: Engine) -> Tensor:
    """Return float32 [N, 3, H, W] in [0, 1], on the engine's device."""
    pixels = [passes.pixels_of(model.preprocess, image) for image in batch.images]
    return torch.stack(pixels).to(engine.device)
