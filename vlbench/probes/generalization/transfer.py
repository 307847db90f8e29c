"""Transfer by a linear probe on frozen features. arXiv:2104.08313, section 3.3.

As in the paper: raw features, cross-entropy, Adam with L2 weight decay on weights and bias alike,
the accuracy after the last epoch. `accuracy` departs from it: features are extracted once, from
images as they are. `accuracy_augmented` follows it: each epoch sees every train image through
Resize(size + 20), RandomResizedCrop(size), RandomHorizontalFlip, where `size` is that of the
adapter's own pixels. The adapter's `preprocess` then finds nothing to do if it crops to the size
that it resizes to, as the paper's do; one that resizes further cuts off the border of each crop.
Departure from the code: every draw is seeded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import torch
import torchvision
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torchvision.transforms import v2

from vlbench.capabilities import ImageEncoder
from vlbench.data.records import Column, Data, labels
from vlbench.digests import digest
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.ranking import TIED, Choice, choose
from vlbench.metrics.statistics import wilson
from vlbench.results import Outcome, Score

# Scores held at a time, however large the test set.
BLOCK = 1 << 20

# What augmentation resizes the shorter side beyond the size that it crops to, in pixels.
MARGIN = 20

ALIKE_NOTE = "the features of all test images are the same: none tells classes apart, so chance"


class Recipe(NamedTuple):
    """How a probe is trained."""

    batch_size: int
    learning_rate: float
    weight_decay: float
    seed: int


def transfer(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageEncoder,
    data: Data,
    engine: Engine,
    *,
    epochs: int = 20,
    batch_size: int = 60,
    learning_rate: float = 1e-3,
    weight_decay: float = 5e-4,
    augment: bool = False,
    seed: int = 0,
) -> Outcome:
    """Return the test accuracy of a linear probe trained on the train images' features.

    Where all test images have the same features, within 1e-6, all classes are tied: a probe would
    only know which class is common. Raises TooFewRows for a class that only the test split has.
    """
    if min(epochs, batch_size) < 1:
        raise ValueError(f"epochs {epochs} and batch_size {batch_size}: both must be 1 or more")
    train, test = data.splits["train"], data.splits["test"]
    label, right = torch.from_numpy(labels(train)), torch.from_numpy(labels(test))
    refuse_unseen(label, right, data.classes)
    asked = engine.features(model.encode_images, test["image"])
    same, size = alike(asked), (len(data.classes), asked.shape[1])
    recipe = Recipe(batch_size, learning_rate, weight_decay, seed)
    if augment:
        seen = augmented_features(model, train["image"], engine, epochs=epochs, seed=seed)
        probe = blank(*size) if same else fit(seen, label, size, recipe, engine.device)
        judged = {"accuracy_augmented": (judge(probe, asked, right), right)}
    else:
        known = engine.features(model.encode_images, train["image"])
        probe = blank(*size) if same else fit_once(engine, known, label, size, epochs, recipe)
        judged = {
            "accuracy": (judge(probe, asked, right), right),
            "train_accuracy": (judge(probe, known, label), label),
        }
    scores = [_score(metric, *found, len(data.classes)) for metric, found in judged.items()]
    ties = int(next(iter(judged.values()))[0].tied.sum())
    notes = [ALIKE_NOTE] if same else []
    return Outcome(scores=scores, counts={"n": len(right), "ties": ties}, notes=notes)


def alike(features: Tensor) -> bool:
    """Return whether all of two or more rows [N, D] are equal, within 1e-6 of the largest |x|."""
    low, high = features.aminmax(dim=0)
    largest = torch.maximum(low.abs(), high.abs()).amax()
    return len(features) > 1 and bool((high - low <= TIED * largest).all())


def blank(classes: int, width: int) -> dict[str, Tensor]:
    """Return the probe that prefers no class."""
    return {"weight": torch.zeros(classes, width), "bias": torch.zeros(classes)}


def fit(
    epochs: Iterable[Tensor],
    label: Tensor,
    size: tuple[int, int],
    recipe: Recipe,
    device: torch.device,
) -> dict[str, Tensor]:
    """Return weight [C, D] and bias [C] of a probe of size (C, D), trained on `device`.

    Each epoch has features [N, D] of its own, in the order of `label` [N]. The recipe's seed draws
    PyTorch's own initialisation of a linear layer, then the order of each epoch.
    """
    rng = torch.Generator().manual_seed(recipe.seed)
    linear = _untrained(*size, rng).to(device)
    adam = torch.optim.Adam(
        linear.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    for features in epochs:
        order = torch.randperm(len(label), generator=rng)
        for rows in torch.split(order, recipe.batch_size):
            adam.zero_grad()
            logits = linear(features[rows].to(device))
            torch.autograd.backward(cross_entropy(logits, label[rows].to(device)))
            adam.step()
    return {name: value.detach().cpu() for name, value in linear.named_parameters()}


def judge(probe: dict[str, Tensor], features: Tensor, right: Tensor) -> Choice:
    """Return the choice of the highest logit for each of [N, D] features."""
    weight, bias = probe["weight"], probe["bias"]
    reach, offset = weight.norm(dim=1).amax(), bias.abs().amax()
    rows = max(1, BLOCK // len(bias))
    choices = [
        choose(torch.addmm(bias, x, weight.T), y, scale=x.norm(dim=1) * reach + offset)
        for x, y in zip(torch.split(features, rows), torch.split(right, rows), strict=True)
    ]
    return Choice(torch.cat([c.credit for c in choices]), torch.cat([c.tied for c in choices]))


def augmented_features(
    model: ImageEncoder, images: Column, engine: Engine, *, epochs: int, seed: int
) -> Iterator[Tensor]:
    """Yield float32 [N, D] for each epoch, extracted anew from augmented images."""
    height, width = model.preprocess(images[0]).shape[-2:]
    for epoch in range(epochs):
        yield engine.features(
            model.encode_images, augmented(images, (height, width), seed=seed, epoch=epoch)
        )


def augmented(images: Column, size: tuple[int, int], *, seed: int, epoch: int) -> Column:
    """Return a column of the same images as one epoch sees them, all of one size (H, W).

    What becomes of an image depends on seed, epoch and its row alone, not on what is read before.
    """
    key = digest(["augmented", images.key, size, seed, epoch, MARGIN, torchvision.__version__])
    return Column(key, images.kind, Augmented(images.stored, size, seed, epoch), images.rows)


@dataclass(frozen=True, eq=False)
class Augmented(Sequence[Any]):
    """Images of `source`, augmented each time they are asked for, and not kept."""

    source: Sequence[Image]
    size: tuple[int, int]
    seed: int
    epoch: int

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.source)

    def __getitem__(self, row: Any) -> Any:
        """Return the image of one row."""
        change = v2.Compose(
            [
                v2.Resize(min(self.size) + MARGIN),
                v2.RandomResizedCrop(self.size),
                v2.RandomHorizontalFlip(),
            ]
        )
        state = np.random.SeedSequence([self.seed, self.epoch, row]).generate_state(1)
        # The library draws from the global generator, which is left as it was.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(state[0]))
            return change(self.source[row])


def refuse_unseen(label: Tensor, right: Tensor, classes: Sequence[str]) -> None:
    """Raise TooFewRows for a class that test labels `right` have and train labels lack."""
    known, asked = (y.bincount(minlength=len(classes)) for y in (label, right))
    unseen = ((known == 0) & (asked > 0)).nonzero().flatten().tolist()
    if unseen:
        found = f"class '{classes[unseen[0]]}' has {int(asked[unseen[0]])} test images"
        raise TooFewRows(f"{found}, but no train image to learn it from")


def fit_once(
    engine: Engine,
    features: Tensor,
    label: Tensor,
    size: tuple[int, int],
    epochs: int,
    recipe: Recipe,
) -> dict[str, Tensor]:
    """Return `fit` on the same features [N, D] in every epoch, trained once and kept."""
    key = {"what": "linear probe", "features": features, "label": label, "size": size}
    setting = {"epochs": epochs, "device": engine.device.type, "torch": torch.__version__}
    found: dict[str, Tensor] = engine.once(
        key | setting | recipe._asdict(),
        lambda: fit(repeat(features, epochs), label, size, recipe, engine.device),
    )
    return found


def _untrained(classes: int, width: int, rng: torch.Generator) -> nn.Linear:
    """Return a linear layer as PyTorch initialises it, but drawn from `rng`."""
    linear = nn.Linear(width, classes, device="meta").to_empty(device="cpu")
    nn.init.kaiming_uniform_(linear.weight, a=math.sqrt(5), generator=rng)
    bound = 1 / math.sqrt(width)
    nn.init.uniform_(linear.bias, -bound, bound, generator=rng)
    return linear


def _score(metric: str, choice: Choice, right: Tensor, classes: int) -> Score:
    n = len(right)
    return Score(
        metric=metric,
        n=n,
        chance=1 / classes,
        floors={"majority_class": int(right.bincount().amax()) / n},
        **wilson(float(choice.credit.sum()), n)._asdict(),
    )
