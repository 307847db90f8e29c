"""The attacked classifier: a model's own classifier, or a linear head trained on its features.

A model's own classifier is attacked if its classes are the classes of the data. A classifier of
other classes is neither attacked nor replaced by a head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from vlbench.capabilities import Classifier, ImageEncoder
from vlbench.data.records import Column, Data
from vlbench.engine import Engine, pass_checks
from vlbench.errors import CannotDo
from vlbench.metrics.ranking import Choice, all_equal, choose
from vlbench.probes.generalization.class_pairs import pair_classes
from vlbench.probes.generalization.linear import (
    PAPER_TRAINING,
    LinearProbe,
    classify,
    few_steps,
    train_and_test_labels,
    train_linear_probe_once,
    zero_probe,
)
from vlbench.probes.generalization.rpgd import Attack, perturb
from vlbench.system.digests import digest

OWN_NOTE = "the attack is on the model's own classifier"
HEAD_NOTE = (
    "the attack is on a linear head, trained on the unscaled features of {} train images: {} "
    "epochs of Adam, learning rate {}, weight decay {}, batch size {}"
)


@dataclass(frozen=True, eq=False)
class Victim:
    """A differentiable classifier: `encode` returns logits, or features [N, D] for the `head`.

    `outputs` are the output numbers of the classes, if the model's order differs.
    """

    encode: Callable[[Tensor], Tensor]
    head: LinearProbe | None
    notes: list[str]
    outputs: list[int] | None = None

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, K] for pixels [N, 3, H, W]."""
        out = self.encode(pixels).float()
        return torch.addmm(self.head["bias"], out, self.head["weight"].T) if self.head else out

    def choices(self, pixels: Tensor, *labels: Tensor) -> list[Choice]:
        """Return the classifier's choices, judged by each of several labels [N]."""
        with torch.no_grad():
            out = self.encode(pixels).float()
        if self.head:
            return [classify(self.head, out, label) for label in labels]
        return [choose(out, label, log_odds=True) for label in labels]


def find_victim(
    model: Classifier | ImageEncoder, data: Data, engine: Engine, sample: Tensor, *, seed: int
) -> Victim:
    """Return the model's own classifier, or a trained head if it has none.

    The classifier is tried on the pixels `sample`. Raises CannotDo if the model's classes are not
    the data's classes, and if there is no classifier and no way to train a head; ValueError for
    logits that are not [N, C]; TooFewRows for a class without train images for the head.
    """
    reason = ""
    if isinstance(model, Classifier):
        try:
            with torch.no_grad():
                logits = engine.checked(model.logits)(sample)
        except CannotDo as error:
            reason = str(error)
        else:
            pairs = pair_classes(model, data, logits)
            notes = [OWN_NOTE, pairs.note] if pairs.note else [OWN_NOTE]
            own = model.logits
            return Victim(lambda pixels: pairs.of_classes(own(pixels)), None, notes, pairs.outputs)
    if not isinstance(model, ImageEncoder):
        raise CannotDo(reason or "the model has neither a classifier nor image features")
    if "train" not in data.splits:
        why = reason or "the model has no classifier"
        raise CannotDo(f"{why}, and the data have no train images to learn one from")
    return _train_head(model, data, engine, seed)


def _train_head(model: ImageEncoder, data: Data, engine: Engine, seed: int) -> Victim:
    """Return a head trained as in the transfer probe; it is zero if all features are equal."""
    train = data.splits["train"]
    label, _ = train_and_test_labels(data)
    features = engine.features(model.encode_images, train["image"])
    size, training = (len(data.classes), features.shape[1]), PAPER_TRAINING._replace(seed=seed)
    head, few = zero_probe(*size), list[str]()
    if not all_equal(features):
        head = train_linear_probe_once(engine, features, label, size, training)
        few = few_steps(training, len(label))
    epochs, batch_size, learning_rate, weight_decay = training[:4]
    note = HEAD_NOTE.format(len(label), epochs, learning_rate, weight_decay, batch_size)
    on_device = {name: value.to(engine.device) for name, value in head.items()}
    return Victim(model.encode_images, on_device, [note, *few])


class AttackBatch(NamedTuple):
    """Images that are attacked together, numbered in the order drawn, and their classes."""

    number: int
    images: Column
    right: Tensor
    target: Tensor


class Predictions(NamedTuple):
    """Credit of a classifier's choices on N images, float64 [N], and which were tied, bool [N].

    `right` is the credit for choosing the right class, `target` for choosing the target class.
    `chosen` are the chosen classes, int64 [N], -1 if several are tied.
    """

    right: Tensor
    target: Tensor
    tied: Tensor
    chosen: Tensor


@dataclass(frozen=True)
class AttackRun:
    """Attacks on the same batches; each batch's result is stored immediately."""

    model: Classifier | ImageEncoder
    victim: Victim
    batches: Sequence[AttackBatch]
    engine: Engine

    def predictions(self, attack: Attack | None) -> Predictions:
        """Return the predictions after an attack, or on the original images if it is None."""

        def attacked(batches: Sequence[AttackBatch]) -> list[Tensor]:
            return [self._one(batch, attack) for batch in batches]

        if attack:
            attacked.__name__ = f"{attack.norm} {attack.goal} {attack.epsilon:g}"
        key = {
            "what": "attack",
            "model": self.model,
            "head": self.victim.head,
            "outputs": self.victim.outputs,
            "attack": attack and attack._asdict(),
            "device": self.engine.device.type,
        }
        content = [[b.number, b.images.key, b.images.rows, b.right, b.target] for b in self.batches]
        column = Column(digest(content), "value", self.batches, range(len(self.batches)))
        parts = self.engine.map(attacked, column, key=key, one_by_one=True)
        right, target, tied, chosen = torch.cat(parts, dim=1)
        return Predictions(right, target, tied.bool(), chosen.long())

    def _one(self, batch: AttackBatch, attack: Attack | None) -> Tensor:
        """Return the credit of the right class and of the target, ties, and choices, [4, N]."""
        pixels = pixels_of(self.model, batch, self.engine)
        right, target = (label.to(self.engine.device) for label in (batch.right, batch.target))
        if attack:
            label = right if attack.goal == "untargeted" else target
            pixels = perturb(self.victim.logits, pixels, label, attack, batch.number)
        for_right, for_target = self.victim.choices(pixels, right, target)
        rows = [for_right.credit, for_target.credit, for_right.tied, for_right.chosen]
        return torch.stack([row.double() for row in rows]).cpu()


def pixels_of(model: Classifier | ImageEncoder, batch: AttackBatch, engine: Engine) -> Tensor:
    """Return float32 [N, 3, H, W] in [0, 1], on the engine's device."""
    pixels = [pass_checks.pixels_of(model.preprocess, image) for image in batch.images]
    return torch.stack(pixels).to(engine.device)
