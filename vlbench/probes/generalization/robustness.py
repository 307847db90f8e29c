"""Robustness to random projected gradient descent. arXiv:2104.08313, section 3.4.

`success` is the share of perturbed images that are taken for another class than the right one
(untargeted) or for the class `target_offset` further on (targeted), whether or not the image was
classified rightly before: at epsilon 0 untargeted it is one minus `clean_accuracy`. Its chance is
what a model scores that cannot tell classes apart: of K classes, 1 - 1/K and 1/K.
`success_given_correct` is the same among images that were classified rightly and without a tie.
A tie after the attack counts in part, as everywhere; foolbox's own verdict has no ties.

Epsilon is in units of pixels in [0, 1], of the adapter's own size; normalisation lies inside the
attacked model. At epsilon 0 nothing can move, so nothing is run. Departures from the paper's code:
every draw is seeded; the head of a model that has none of its own is trained as in `transfer`, on
features of images as they are (the paper gives no recipe). `success_early_stop`, off by default, is
another rule: an image counts as fallen if it falls at any step, not only after the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from vlbench.capabilities import Classifier, ImageEncoder
from vlbench.data.records import Data, Split, labels
from vlbench.engine import Engine
from vlbench.errors import CannotDo, TooFewRows
from vlbench.metrics.statistics import wilson
from vlbench.probes.generalization.attacks.rpgd import ATTACKS, GOALS, Attack, gradient
from vlbench.probes.generalization.attacks.runs import Batch, Seen, Work, pixels_of
from vlbench.probes.generalization.attacks.victims import find_victim
from vlbench.results import Outcome, Score

BLIND_NOTE = (
    "the gradient of the first {} images is 0 everywhere: descent is blind, so that a low success "
    "does not show a robust model"
)
NONE_RIGHT_NOTE = "no image was classified rightly: nothing to score given that it was"


def robustness(  # noqa: PLR0913 - the YAML fills all but three
    model: Classifier | ImageEncoder,
    data: Data,
    engine: Engine,
    *,
    epsilons: dict[str, list[float]],
    target_offset: int,
    images: int | None = 1000,
    images_seed: int = 42,
    batch_size: int = 10,
    steps: int = 100,
    rel_stepsize: float = 0.025,
    early_stop: bool = False,
    seed: int = 0,
) -> Outcome:
    """Return the success of attacks on test images, for each norm, goal and epsilon.

    `epsilons` has ascending sizes under `linf` and `l2`. `images` test images are drawn as in the
    paper's code, or all are taken. The target of class y is (y + target_offset) mod K. Raises
    ValueError for what cannot be attacked with, TooFewRows for fewer test images than asked.
    """
    classes = len(data.classes)
    _refuse_sizes(epsilons)
    _refuse_counts(batch_size, steps, rel_stepsize)
    if target_offset % classes == 0:
        raise ValueError(f"target_offset {target_offset} is a multiple of the {classes} classes")
    _refuse_model(model)
    test = _drawn(data.splits["test"], images, images_seed)
    target = (labels(test) + target_offset) % classes
    batches = _cut(test, target, batch_size)
    first = pixels_of(model, batches[0], engine)
    victim = find_victim(model, data, engine, first, seed=seed)
    slope = gradient(victim.logits, first, batches[0].right.to(engine.device))
    work = Work(model, victim, batches, engine)
    clean = work.run(None)
    found, ties = {}, int(clean.tied.sum())
    for norm, goal, epsilon in _conditions(epsilons):
        attack = Attack(norm, goal, epsilon, steps, rel_stepsize, seed, early_stop)
        found[norm, goal, epsilon] = seen = work.run(attack) if epsilon else clean
        ties += int(seen.tied.sum()) if epsilon else 0
    metric = "success_early_stop" if early_stop else "success"
    scores = [_clean_accuracy(clean, labels(test), classes)]
    for condition, seen in found.items():
        scores += _successes(metric, condition, seen, clean, classes)
    notes = [victim.note]
    notes += [] if slope.any() else [BLIND_NOTE.format(len(first))]
    notes += [] if (clean.right == 1).any() else [NONE_RIGHT_NOTE]
    return Outcome(scores=scores, counts={"n": len(test), "ties": ties}, notes=notes)


def _conditions(epsilons: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, str, float]]:
    """Yield norm, goal and epsilon."""
    for norm, sizes in epsilons.items():
        yield from ((norm, goal, float(size)) for goal in GOALS for size in sizes)


def _drawn(test: Split, images: int | None, seed: int) -> Split:
    """Return so many test images in the order drawn, or all as they are."""
    if images is None:
        return test
    if not 1 <= images <= len(test):
        raise TooFewRows(f"the test split has {len(test)} images, {images} asked")
    # The paper's code draws from NumPy's older generator.
    order = np.random.RandomState(seed).permutation(len(test))
    return test.select(order[:images].tolist())


def _cut(test: Split, target: NDArray[np.int64], size: int) -> list[Batch]:
    right = labels(test)
    return [
        Batch(
            number=number,
            images=test["image"].select(range(start, min(start + size, len(test)))),
            right=torch.from_numpy(right[start : start + size]),
            target=torch.from_numpy(target[start : start + size]),
        )
        for number, start in enumerate(range(0, len(test), size))
    ]


def _clean_accuracy(clean: Seen, right: NDArray[np.int64], classes: int) -> Score:
    n = len(right)
    return Score(
        metric="clean_accuracy",
        n=n,
        chance=1 / classes,
        floors={"majority_class": int(np.bincount(right).max()) / n},
        **wilson(float(clean.right.sum()), n)._asdict(),
    )


def _successes(
    metric: str, condition: tuple[str, str, float], seen: Seen, clean: Seen, classes: int
) -> list[Score]:
    """Return the success on all images, and, if there are any, on those classified rightly."""
    norm, goal, epsilon = condition
    untargeted = goal == "untargeted"
    fallen = 1 - seen.right if untargeted else seen.target
    chance = {metric: 1 - 1 / classes if untargeted else 1 / classes}
    parts = {metric: fallen, f"{metric}_given_correct": fallen[clean.right == 1]}
    return [
        Score(
            metric=name,
            at={"norm": norm, "goal": goal, "epsilon": epsilon},
            n=len(part),
            chance=chance.get(name),
            higher_is_better=False,
            **wilson(float(part.sum()), len(part))._asdict(),
        )
        for name, part in parts.items()
        if len(part)
    ]


def _refuse_sizes(epsilons: Mapping[str, Sequence[float]]) -> None:
    for norm, sizes in epsilons.items():
        if norm not in ATTACKS:
            raise ValueError(f"no norm is named '{norm}'; there are {', '.join(ATTACKS)}")
        finite = all(0 <= size < np.inf for size in sizes)
        if not sizes or not finite or list(sizes) != sorted(set(sizes)):
            raise ValueError(f"epsilons of {norm} are {sizes}; wanted some of 0 or more, ascending")
    if not epsilons:
        raise ValueError(f"no epsilons; give some under {' or '.join(ATTACKS)}")


def _refuse_counts(batch_size: int, steps: int, rel_stepsize: float) -> None:
    if min(batch_size, steps) < 1 or not 0 < rel_stepsize < np.inf:
        given = f"batch_size {batch_size}, steps {steps}, rel_stepsize {rel_stepsize}"
        raise ValueError(f"{given}: the first two must be 1 or more, the last above 0")


def _refuse_model(model: Classifier | ImageEncoder) -> None:
    if not getattr(model, "differentiable", True):
        raise CannotDo("no gradient flows through this model, which says differentiable = False")
    if getattr(model, "ragged", False):
        raise CannotDo("this model keeps each picture's size; a batch is attacked at one size")
