"""What an attack is made on: a model's own classifier, or a linear head trained on its features.

A model's own classifier is taken where its classes are the data's: as many logits as classes, and,
where both have names in letters, at least one class that shares a word with the data's class at
the same place. One with other classes is not attacked, and gets no head in its stead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vlbench.capabilities import Classifier, ImageEncoder
from vlbench.data.records import Data, labels
from vlbench.engine import Engine
from vlbench.errors import CannotDo
from vlbench.metrics.ranking import Choice, choose
from vlbench.probes.generalization.transfer import (
    Recipe,
    alike,
    blank,
    fit_once,
    judge,
    refuse_unseen,
)

# How the transfer probe's tasks train.
EPOCHS, BATCH_SIZE, LEARNING_RATE, WEIGHT_DECAY = 20, 60, 1e-3, 5e-4

OWN_NOTE = "the model's own classifier is attacked"
HEAD_NOTE = (
    "a linear head is attacked, trained on the features of {} train images as they are: {} epochs "
    "of Adam, learning rate {}, weight decay {}, batch size {}"
)


@dataclass(frozen=True, eq=False)
class Victim:
    """A differentiable classifier: logits, or features [N, D] that `head` makes logits of."""

    encode: Callable[[Tensor], Tensor]
    head: dict[str, Tensor] | None
    note: str

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, K] for pixels [N, 3, H, W]."""
        out = self.encode(pixels).float()
        return torch.addmm(self.head["bias"], out, self.head["weight"].T) if self.head else out

    def choices(self, pixels: Tensor, *wanted: Tensor) -> list[Choice]:
        """Return, for each of some `wanted` classes [N], what the classifier's choice earns."""
        with torch.no_grad():
            out = self.encode(pixels).float()
        if self.head:
            return [judge(self.head, out, label) for label in wanted]
        return [choose(out, label) for label in wanted]


def find_victim(
    model: Classifier | ImageEncoder, data: Data, engine: Engine, sample: Tensor, *, seed: int
) -> Victim:
    """Return the model's own classifier, or a trained head where it has none.

    `sample` are pixels to try it on. Raises CannotDo where the model's classes are not the data's,
    and where there is neither a classifier nor anything to train one from; ValueError for logits
    that are not [N, C]; TooFewRows for a class that a head would have no train image of.
    """
    reason = ""
    if isinstance(model, Classifier):
        try:
            with torch.no_grad():
                logits = model.logits(sample)
        except CannotDo as error:
            reason = str(error)
        else:
            _refuse_other_classes(model, logits, data.classes)
            return Victim(model.logits, None, OWN_NOTE)
    if not isinstance(model, ImageEncoder):
        raise CannotDo(reason or "the model has neither a classifier nor image features")
    if "train" not in data.splits:
        why = reason or "the model has no classifier"
        raise CannotDo(f"{why}, and the data have no train images to learn one from")
    return _trained(model, data, engine, seed)


def _trained(model: ImageEncoder, data: Data, engine: Engine, seed: int) -> Victim:
    """Return a head trained as the transfer probe does; features all alike give a blank one."""
    train = data.splits["train"]
    label = torch.from_numpy(labels(train))
    refuse_unseen(label, torch.from_numpy(labels(data.splits["test"])), data.classes)
    known = engine.features(model.encode_images, train["image"])
    size = (len(data.classes), known.shape[1])
    recipe = Recipe(BATCH_SIZE, LEARNING_RATE, WEIGHT_DECAY, seed)
    head = blank(*size) if alike(known) else fit_once(engine, known, label, size, EPOCHS, recipe)
    note = HEAD_NOTE.format(len(label), EPOCHS, LEARNING_RATE, WEIGHT_DECAY, BATCH_SIZE)
    there = {name: value.to(engine.device) for name, value in head.items()}
    return Victim(model.encode_images, there, note)


def _refuse_other_classes(model: Classifier, logits: Tensor, classes: Sequence[str]) -> None:
    if logits.ndim != 2:
        raise ValueError(f"logits have shape {list(logits.shape)}; wanted [N, C]")
    if logits.shape[1] != len(classes):
        count = logits.shape[1]
        raise CannotDo(f"the model's own classifier has {count} classes, the data {len(classes)}")
    try:
        names = model.class_names()
    except CannotDo:  # a checkpoint whose names nobody knows: their number has to do
        return
    pairs = [(_words(a), _words(b)) for a, b in zip(names, classes, strict=False)]
    told = [(a, b) for a, b in pairs if a and b]
    if told and not any(a & b for a, b in told):
        first = f"its first is '{names[0]}', the data's '{classes[0]}'"
        raise CannotDo(f"the classes of the model's own classifier are not the data's: {first}")


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z]+", name.lower()))
