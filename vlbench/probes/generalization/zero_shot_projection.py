"""Unseen classes told by a map from images to a language space, learnt on seen ones.

Of the code of arXiv:2104.08313 (its section 3 says why the paper leaves it out): a linear map
without bias, classes scored by the dot product of a mapped image with their words' vectors, and a
softmax over all classes, trained on the images of 70 % of the classes by the mean of
(sum over c of max(0, 1 - p_y + p_c) - 1) / (K - 1). A class's vector is that of the first token of
its name, in lower case, in a prompt, or where the companion gives whole texts, that of the prompt.
The test images of the other classes are told among these alone.
Departures: images are not augmented, since features are computed once; every draw is seeded; tokens
are found by where they stand, not by counting. The floor `shuffled_words` is the same training with
each class given another one's vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import multi_margin_loss
from torch.optim.lr_scheduler import StepLR

from vlbench.capabilities import ImageEncoder, TextEncoder, TokenEncoder
from vlbench.data.records import Data, labels
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.ranking import choose
from vlbench.metrics.statistics import ROUNDING, Z95, Estimate, wilson
from vlbench.probes.generalization.transfer import alike
from vlbench.probes.generalization.words.class_vectors import class_vectors
from vlbench.results import Outcome, Score

ALIKE_NOTE = "the features of all test images are the same: none tells classes apart, so chance"


class Recipe(NamedTuple):
    """How a map is trained: the learning rate is halved every ten epochs."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float


class Trial(NamedTuple):
    """A draw of classes, and what is drawn for its training: the classes' order and a seed."""

    seen: NDArray[np.int64]
    unseen: NDArray[np.int64]
    seed: int


class Images(NamedTuple):
    """Features [N, D] with labels [N]."""

    features: Tensor
    label: Tensor


def zero_shot_projection(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageEncoder,
    data: Data,
    engine: Engine,
    *,
    words: TokenEncoder | TextEncoder,
    prompt: str = "a photo of {}.",
    seen_share: float = 0.7,
    trials: int = 10,
    epochs: int = 20,
    batch_size: int = 80,
    learning_rate: float = 1e-3,
    weight_decay: float = 5e-4,
    seed: int = 0,
) -> Outcome:
    """Return the share of unseen classes' test images that a map learnt on seen ones tells.

    Where all test images have the same features, within 1e-6, all classes are tied; so are classes
    of the same vector, as are names with the same first token. Raises ValueError for fewer than two
    classes of either kind, and TooFewRows where a trial finds no images of one kind.
    """
    if min(trials, epochs, batch_size) < 1:
        given = f"trials {trials}, epochs {epochs}, batch_size {batch_size}"
        raise ValueError(f"{given}: all must be 1 or more")
    drawn = _draw(len(data.classes), seen_share, trials, seed)
    train, test = data.splits["train"], data.splits["test"]
    names = [name.lower() for name in data.classes]
    vectors = class_vectors(engine, words, names, prompt)
    known = Images(
        engine.features(model.encode_images, train["image"]), torch.from_numpy(labels(train))
    )
    asked = Images(
        engine.features(model.encode_images, test["image"]), torch.from_numpy(labels(test))
    )
    _refuse_empty(drawn, known.label, asked.label)
    recipe = Recipe(epochs, batch_size, learning_rate, weight_decay)
    dealt = torch.stack([vectors[_derangement(trial)] for trial in drawn])
    credit, ties = _told(engine, known, asked, vectors.expand_as(dealt), drawn, recipe)
    floor, _ = _told(engine, known, asked, dealt, drawn, recipe)
    same = len(vectors) - len(np.unique(vectors.numpy(), axis=0))
    score = _score(credit, floor, asked.label, drawn)
    return Outcome(
        scores=[score],
        counts={"n": score.n, "ties": ties, "classes_without_own_vector": same},
        notes=[ALIKE_NOTE] if alike(asked.features) else [],
    )


def fit(
    images: Images, vectors: Tensor, recipe: Recipe, rng: torch.Generator, device: torch.device
) -> Tensor:
    """Return a map float32 [E, D] of features to the space of the classes' vectors [K, E].

    Drawn as PyTorch initialises a linear layer, but from `rng`, as is each epoch's order.
    """
    width, n_classes = images.features.shape[1], len(vectors)
    bound = 1 / math.sqrt(width)
    weight = torch.empty(vectors.shape[1], width).uniform_(-bound, bound, generator=rng)
    weight = weight.to(device).requires_grad_()
    adam = torch.optim.Adam([weight], lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    schedule = StepLR(adam, 10, 0.5)
    targets = vectors.to(device)
    for _ in range(recipe.epochs):
        order = torch.randperm(len(images.label), generator=rng)
        for rows in torch.split(order, recipe.batch_size):
            adam.zero_grad()
            shares = (images.features[rows].to(device) @ weight.T @ targets.T).softmax(1)
            # PyTorch divides by K.
            loss = multi_margin_loss(shares, images.label[rows].to(device))
            torch.autograd.backward(loss * n_classes / (n_classes - 1))
            adam.step()
        schedule.step()
    return weight.detach().cpu()


def _told(
    engine: Engine,
    known: Images,
    asked: Images,
    vectors: Tensor,
    drawn: Sequence[Trial],
    recipe: Recipe,
) -> tuple[Tensor, int]:
    """Return the credit [trials, N] of each test image, NaN where its class was seen, and ties."""
    key = {"what": "zero-shot projection", "train": known._asdict(), "test": asked._asdict()}
    setting = {"trials": [trial._asdict() for trial in drawn], "vectors": vectors}
    where = {"device": engine.device.type, "torch": torch.__version__}

    def build() -> list[Tensor]:
        turns = engine.watched("projections", list(zip(drawn, vectors, strict=True)), len(drawn))
        found = [_trial(known, asked, v, trial, recipe, engine.device) for trial, v in turns]
        return [torch.stack([credit for credit, _ in found]), torch.stack([n for _, n in found])]

    credit, ties = engine.once(key | setting | where | recipe._asdict(), build)
    return credit, int(ties.sum())


def _trial(
    known: Images,
    asked: Images,
    vectors: Tensor,
    trial: Trial,
    recipe: Recipe,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    seen, unseen = torch.from_numpy(trial.seen), torch.from_numpy(trial.unseen)
    rows, judged = torch.isin(known.label, seen), torch.isin(asked.label, unseen)
    rng = torch.Generator().manual_seed(trial.seed)
    if alike(asked.features):
        weight = torch.zeros(vectors.shape[1], asked.features.shape[1])
    else:
        chosen = Images(known.features[rows], known.label[rows])
        weight = fit(chosen, vectors, recipe, rng, device)
    places = asked.features[judged] @ weight.T
    candidates = vectors[unseen]
    choice = choose(
        places @ candidates.T,
        torch.searchsorted(unseen, asked.label[judged]),
        scale=places.norm(dim=1) * candidates.norm(dim=1).amax(),
    )
    credit = torch.full((len(judged),), torch.nan, dtype=torch.float64)
    credit[judged] = choice.credit
    return credit, choice.tied.sum()


def _draw(n_classes: int, share: float, trials: int, seed: int) -> list[Trial]:
    """Return trials with int(share x K) classes seen each, both kinds ascending."""
    n_seen = int(share * n_classes)
    if min(n_seen, n_classes - n_seen) < 2:
        parts = f"{n_seen} seen and {n_classes - n_seen} unseen"
        raise ValueError(f"{n_classes} classes are {parts}; 2 or more of each are wanted")
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(n_classes) for _ in range(trials)]
    return [
        Trial(np.sort(order[:n_seen]), np.sort(order[n_seen:]), int(rng.integers(2**31)))
        for order in orders
    ]


def _derangement(trial: Trial) -> Tensor:
    """Return a seeded order of all classes in which none is in its own place."""
    order = np.random.default_rng(trial.seed).permutation(len(trial.seen) + len(trial.unseen))
    found = np.empty_like(order)
    found[order] = np.roll(order, 1)
    return torch.from_numpy(found)


def _refuse_empty(drawn: Sequence[Trial], known: Tensor, asked: Tensor) -> None:
    for number, trial in enumerate(drawn, 1):
        if not np.isin(known, trial.seen).any() or not np.isin(asked, trial.unseen).any():
            raise TooFewRows(f"trial {number} has no train images of seen classes, or no test ones")


def _score(credit: Tensor, floor: Tensor, label: Tensor, drawn: Sequence[Trial]) -> Score:
    n_unseen = len(drawn[0].unseen)
    common = [label[~row.isnan()].bincount().amax() / (~row.isnan()).sum() for row in credit]
    estimate = mean_of_parts(credit)
    return Score(
        metric="accuracy",
        n=int((~credit.isnan()).any(0).sum()),
        chance=1 / n_unseen,
        floors={
            "majority_class": float(torch.stack(common).mean()),
            "shuffled_words": mean_of_parts(floor).value,
        },
        draws=credit.nanmean(1).tolist(),
        **estimate._asdict(),
    )


def mean_of_parts(credit: Tensor) -> Estimate:
    """Return the mean over trials of the mean credit, each trial on some of the items [T, N].

    As `mean_of_trials`, with items that a trial leaves out as NaN; an item counts once.
    """
    of_trials = credit.nanmean(1)
    of_items = credit[:, (~credit.isnan()).any(0)].nanmean(0)
    n, value = len(of_items), float(of_trials.mean())
    parts = [float(x.var()) / len(x) if len(x) > 1 else 0.0 for x in (of_trials, of_items)]
    stderr = math.sqrt(sum(parts))
    if n == 1 or stderr < ROUNDING:
        return wilson(value * n, n)
    return Estimate(value, stderr, (max(value - Z95 * stderr, 0.0), min(value + Z95 * stderr, 1.0)))
