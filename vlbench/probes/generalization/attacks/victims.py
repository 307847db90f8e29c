"""The classifier under attack: a model's own, or a linear head trained on its features.

A model's own classifier is attacked where its classes are those of the data. A classifier of other
classes is not attacked, nor replaced by a head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vlbench.capabilities import Classifier, ImageEncoder
from vlbench.data.records import Data, labels
from vlbench.engine import Engine
from vlbench.errors import CannotDo
from vlbench.metrics.features import all_equal
from vlbench.metrics.ranking import Choice, choose
from vlbench.nets.linear import (
    PAPER_TRAINING,
    LinearProbe,
    classify,
    require_train_images,
    train_linear_probe_once,
    zero_probe,
)
from vlbench.probes.generalization.own_classes import refuse_other_classes

OWN_NOTE = "the model's own classifier is attacked"
HEAD_NOTE = (
    "a linear head is attacked, trained on the features of {} train images as they are: {} epochs "
    "of Adam, learning rate {}, weight decay {}, batch size {}"
)


@dataclass(frozen=True, eq=False)
class Victim:
    """A differentiable classifier: `encode` returns logits, or features [N, D] for the `head`."""

    encode: Callable[[Tensor], Tensor]
    head: LinearProbe | None
    note: str

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
        return [choose(out, label) for label in labels]


def find_victim(
    model: Classifier | ImageEncoder, data: Data, engine: Engine, sample: Tensor, *, seed: int
) -> Victim:
    """Return the model's own classifier, or a trained head where it has none.

    `sample` are pixels to try it on. Raises CannotDo where the model's classes are not the data's,
    and where there is neither a classifier nor anything to train one from; ValueError for logits
    that are not [N, C]; TooFewRows for a class without a train image for the head.
    """
    reason = ""
    if isinstance(model, Classifier):
        try:
            with torch.no_grad():
                logits = engine.checked(model.logits)(sample)
        except CannotDo as error:
            reason = str(error)
        else:
            refuse_other_classes(model, logits, data.classes)
            return Victim(model.logits, None, OWN_NOTE)
    if not isinstance(model, ImageEncoder):
        raise CannotDo(reason or "the model has neither a classifier nor image features")
    if "train" not in data.splits:
        why = reason or "the model has no classifier"
        raise CannotDo(f"{why}, and the data have no train images to learn one from")
    return _trained(model, data, engine, seed)


def _trained(model: ImageEncoder, data: Data, engine: Engine, seed: int) -> Victim:
    """Return a head trained as in the transfer probe; it is zero where all features are equal."""
    train = data.splits["train"]
    label = torch.from_numpy(labels(train))
    require_train_images(label, torch.from_numpy(labels(data.splits["test"])), data.classes)
    features = engine.features(model.encode_images, train["image"])
    size, training = (len(data.classes), features.shape[1]), PAPER_TRAINING._replace(seed=seed)
    if all_equal(features):
        head = zero_probe(*size)
    else:
        head = train_linear_probe_once(engine, features, label, size, training)
    epochs, batch_size, learning_rate, weight_decay, _ = training
    note = HEAD_NOTE.format(len(label), epochs, learning_rate, weight_decay, batch_size)
    on_device = {name: value.to(engine.device) for name, value in head.items()}
    return Victim(model.encode_images, on_device, note)
