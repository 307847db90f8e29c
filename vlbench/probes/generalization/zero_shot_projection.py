"""Zero-shot classification by a map from images to a language space, learned on other classes.

From the code of arXiv:2104.08313; section 3 explains why the paper leaves it out. A linear map is
trained on the train images of 70 % of the classes. Test images of the other classes are then
classified among the other classes, by the dot product of the mapped image with the vector of a
class. This is the vector of the first token of the class name, in lower case, in a prompt; if the
companion encodes whole texts, it is the vector of the prompt. Departures: images are not augmented,
because features are computed once; every draw is seeded; tokens are found by their characters, not
by counting. The floor `shuffled_words` is the same training with each class assigned the vector of
another class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import multi_margin_loss
from torch.optim.lr_scheduler import StepLR

from vlbench.capabilities import ImageEncoder, TextEncoder, TokenEncoder
from vlbench.data.names import spoken_names
from vlbench.data.records import TrainAndTestRows, derangement, labels, value_column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.intervals import mean_of_trials
from vlbench.metrics.items import outcome_of
from vlbench.metrics.ranking import all_equal, choose
from vlbench.probes.generalization.categories import measured_images
from vlbench.probes.generalization.class_vectors import class_vectors
from vlbench.probes.generalization.transfer import EQUAL_FEATURES_NOTE
from vlbench.results import Outcome, Positive, Score
from vlbench.system.threads import single_thread


class ProjectionTraining(NamedTuple):
    """Settings of training with Adam; the learning rate is halved every ten epochs."""

    epochs: Positive = 20
    batch_size: Positive = 80
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4


# As in the code of arXiv:2104.08313.
CODE_TRAINING = ProjectionTraining()


class LabelledFeatures(NamedTuple):
    """Features [N, D] of images with labels [N]."""

    features: Tensor
    label: Tensor


@torch.enable_grad()
@single_thread()
def train_projection(
    images: LabelledFeatures,
    vectors: Tensor,
    training: ProjectionTraining,
    rng: torch.Generator,
    device: torch.device,
) -> Tensor:
    """Return a map float32 [E, D] from features to the space of the class vectors [K, E].

    `rng` draws the initial weights, as PyTorch initialises a linear layer, and the order of each
    epoch.
    """
    width, n_classes = images.features.shape[1], len(vectors)
    bound = 1 / math.sqrt(width)
    weight = torch.empty(vectors.shape[1], width).uniform_(-bound, bound, generator=rng)
    weight = weight.to(device).requires_grad_()
    rate, decay = training.learning_rate, training.weight_decay
    adam = torch.optim.Adam([weight], lr=rate, weight_decay=decay, fused=True)
    schedule = StepLR(adam, 10, 0.5)
    targets = vectors.to(device)
    for _ in range(training.epochs):
        order = torch.randperm(len(images.label), generator=rng)
        for rows in torch.split(order, training.batch_size):
            adam.zero_grad()
            logits = images.features[rows].to(device) @ weight.T @ targets.T
            # PyTorch divides by K instead of K - 1.
            loss = multi_margin_loss(logits.softmax(1), images.label[rows].to(device))
            torch.autograd.backward(loss * n_classes / (n_classes - 1))
            adam.step()
        schedule.step()
    return weight.detach().cpu()


class Trial(NamedTuple):
    """A draw of train classes and test classes, both ascending, and the seed of its training."""

    seen: NDArray[np.int64]
    unseen: NDArray[np.int64]
    seed: int


# The features of both splits, train and test.
Features = Mapping[str, LabelledFeatures]


def zero_shot_projection(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageEncoder,
    data: TrainAndTestRows,
    engine: Engine,
    *,
    words: TokenEncoder | TextEncoder,
    prompt: str = "a photo of {}.",
    seen_fraction: float = 0.7,
    trials: Positive = 10,
    training: ProjectionTraining = CODE_TRAINING,
    seed: int = 0,
) -> Outcome:
    """Return the accuracy on test images of classes that the map was not trained on.

    If all test images have the same features, within 1e-6, all classes are tied; so are classes
    with the same vector, such as names with the same first token. Raises ValueError for fewer than
    two train or test classes, and TooFewRows if a trial has no images of either kind.

    Args:
        words: model that encodes the names of the classes.
        prompt: sentence with {} for the name of a class.
        seen_fraction: fraction of the classes that each trial trains on, 0 to 1; at least two
            classes must be on either side.
        trials: random draws of the classes to train on, 1 or more; scores are means over them.
        training: `epochs`, `batch_size`, `learning_rate` (halved every ten epochs) and
            `weight_decay` of Adam.
        seed: seed that draws the classes, and the seeds of each trial's training and floor.
    """
    if min(trials, training.epochs, training.batch_size) < 1:
        text = f"trials {trials}, epochs {training.epochs}, batch_size {training.batch_size}"
        raise ValueError(f"{text}: all must be 1 or more")
    drawn = _draw(len(data.classes), seen_fraction, trials, seed)
    names = [name.lower() for name in spoken_names(data.classes)]
    vectors = class_vectors(engine, words, names, prompt)
    features = {
        name: LabelledFeatures(
            engine.features(model.encode_images, data.splits[name]["image"]),
            torch.from_numpy(labels(data.splits[name])),
        )
        for name in ("train", "test")
    }
    _require_images(drawn, features)
    shuffled = torch.stack([vectors[derangement(len(vectors), trial.seed)] for trial in drawn])
    chosen, credit = _choose(engine, features, vectors.expand_as(shuffled), drawn, training)
    _, floor = _choose(engine, features, shuffled, drawn, training)
    repeated = len(vectors) - len(np.unique(vectors.numpy(), axis=0))
    score = _score(credit, floor, features["test"].label, drawn)
    valid = ~credit.isnan()
    return outcome_of(
        [measured_images(score, credit, chosen, data.splits["test"], data.classes)],
        {
            "n": score.n,
            "ties": int((chosen[valid] < 0).sum()),
            "choices": int(valid.sum()),
            "classes_without_own_vector": repeated,
        },
        [EQUAL_FEATURES_NOTE] if all_equal(features["test"].features) else [],
    )


def _choose(
    engine: Engine,
    features: Features,
    vectors: Tensor,
    drawn: Sequence[Trial],
    training: ProjectionTraining,
) -> tuple[Tensor, Tensor]:
    """Return the classes chosen for test images and their credit, [trials, N] each.

    A tie is -1, and the credit of an image of a class trained on is NaN.
    """
    key: dict[str, Any] = {"what": "choices of a zero-shot projection"}
    key |= {name: part._asdict() for name, part in features.items()}
    key |= {"device": engine.device.type} | training._asdict()

    def projections(trials: Sequence[Trial], of_trials: Sequence[Tensor]) -> list[list[Tensor]]:
        pairs = zip(trials, of_trials, strict=True)
        return [_trial(features, part, trial, training, engine.device) for trial, part in pairs]

    engine.trained = True
    # A training is small, so that it is not split over processes.
    columns = [value_column(drawn), value_column(list(vectors))]
    choices = engine.map(projections, *columns, key=key, one_by_one=True)
    return torch.stack([choice[0] for choice in choices]), torch.stack([one[1] for one in choices])


def _trial(
    features: Features,
    vectors: Tensor,
    trial: Trial,
    training: ProjectionTraining,
    device: torch.device,
) -> list[Tensor]:
    """Return the class chosen for each test image in one trial, int64 [N], and its credit."""
    train, test = features["train"], features["test"]
    seen, unseen = torch.from_numpy(trial.seen), torch.from_numpy(trial.unseen)
    rows, tested = torch.isin(train.label, seen), torch.isin(test.label, unseen)
    rng = torch.Generator().manual_seed(trial.seed)
    if all_equal(test.features):
        weight = torch.zeros(vectors.shape[1], test.features.shape[1])
    else:
        images = LabelledFeatures(train.features[rows], train.label[rows])
        weight = train_projection(images, vectors, training, rng, device)
    mapped = test.features[tested] @ weight.T
    candidates = vectors[unseen]
    choice = choose(
        mapped @ candidates.T,
        torch.searchsorted(unseen, test.label[tested]),
        scale=mapped.norm(dim=1) * candidates.norm(dim=1).amax(),
    )
    chosen = torch.full((len(tested),), -1)
    chosen[tested] = unseen[choice.chosen].masked_fill(choice.tied, -1)
    credit = torch.full((len(tested),), torch.nan, dtype=torch.float64)
    credit[tested] = choice.credit
    return [chosen, credit]


def _draw(n_classes: int, fraction: float, trials: int, seed: int) -> list[Trial]:
    """Return trials that each train on int(fraction x K) of the classes."""
    n_seen = int(fraction * n_classes)
    if min(n_seen, n_classes - n_seen) < 2:
        parts = f"{n_seen} seen and {n_classes - n_seen} unseen"
        raise ValueError(f"{n_classes} classes are {parts}; 2 or more of each are needed")
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(n_classes) for _ in range(trials)]
    return [
        Trial(np.sort(order[:n_seen]), np.sort(order[n_seen:]), int(rng.integers(2**31)))
        for order in orders
    ]


def _require_images(drawn: Sequence[Trial], features: Features) -> None:
    train, test = features["train"].label, features["test"].label
    for number, trial in enumerate(drawn, 1):
        if not np.isin(train, trial.seen).any() or not np.isin(test, trial.unseen).any():
            raise TooFewRows(f"trial {number} has no train or no test images of seen classes")


def _score(credit: Tensor, floor: Tensor, label: Tensor, drawn: Sequence[Trial]) -> Score:
    n_unseen = len(drawn[0].unseen)
    common = [label[~row.isnan()].bincount().amax() / (~row.isnan()).sum() for row in credit]
    return Score(
        metric="accuracy",
        n=int((~credit.isnan()).any(0).sum()),
        chance=1 / n_unseen,
        floors={
            "majority_class": float(torch.stack(common).mean()),
            "shuffled_words": float(floor.nanmean(1).mean()),
        },
        draws=credit.nanmean(1).tolist(),
        **mean_of_trials(credit.numpy())._asdict(),
    )
