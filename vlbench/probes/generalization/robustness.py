"""Robustness to random projected gradient descent. arXiv:2104.08313, section 3.4.

`success` is the fraction of perturbed images that are classified as another class than the right
one (untargeted), or as the class `target_offset` further on (targeted), whether or not the image
was classified correctly before: at epsilon 0 untargeted it is one minus `clean_accuracy`. Its
chance is the score of a model that cannot tell classes apart: of K classes, 1 - 1/K and 1/K.
`success_given_correct` is the same among images that were classified correctly and without a tie.
A tie after the attack counts in part, as in every score; foolbox's own verdict has no ties.

Epsilon is in units of pixels in [0, 1], at the adapter's own image size; normalisation is part of
the attacked model. At epsilon 0 nothing can move, so no attack is run. Departures from the paper's
code: every draw is seeded; a model without a classifier gets a linear head, trained as in
`transfer` on features of images that are not augmented (the paper gives no settings).
`success_early_stop`, off by default, is another rule: an attack succeeds on an image if it succeeds
after any step, not only after the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vlbench.capabilities import Classifier, ImageEncoder
from vlbench.data.records import Data, Split, labels
from vlbench.engine import Engine
from vlbench.errors import CannotDo, TooFewRows
from vlbench.metrics.statistics import wilson
from vlbench.probes.generalization.attacks.rpgd import (
    ATTACKS,
    GOALS,
    PAPER_DESCENT,
    Attack,
    Descent,
    gradient,
)
from vlbench.probes.generalization.attacks.runs import AttackRun, Batch, Predictions, pixels_of
from vlbench.probes.generalization.attacks.victims import find_victim
from vlbench.probes.generalization.categories import of_classes
from vlbench.results import Outcome, Score

BLIND_NOTE = (
    "the gradient of the first {} images is 0 everywhere: descent is blind, so that a low success "
    "does not show a robust model"
)
NONE_RIGHT_NOTE = "no image was classified rightly: nothing to score given that it was"


class Sample(NamedTuple):
    """So many test images, drawn with a seed."""

    images: int = 1000
    seed: int = 42


# As in the paper's code.
PAPER_SAMPLE = Sample()


def robustness(  # noqa: PLR0913 - the YAML fills all but three
    model: Classifier | ImageEncoder,
    data: Data,
    engine: Engine,
    *,
    epsilons: dict[str, list[float]],
    target_offset: int,
    sample: Sample | None = PAPER_SAMPLE,
    attack: Descent = PAPER_DESCENT,
    seed: int = 0,
    categories: list[str] | None = None,
) -> Outcome:
    """Return the success of attacks on test images, for each norm, goal and epsilon.

    `epsilons` has ascending sizes under `linf` and `l2`. `sample` test images are drawn as in the
    paper's code; None takes all. The target of class y is (y + target_offset) mod K. `seed` draws
    the random starts, and trains a head. `categories` are the classes whose images alone are
    attacked, and learned from, in the order of a classifier's outputs; None takes all. Raises
    ValueError for settings that cannot attack, TooFewRows for fewer test images than the sample.
    """
    data = data if categories is None else of_classes(data, categories)
    classes = len(data.classes)
    _refuse_epsilons(epsilons)
    _refuse_descent(attack)
    if target_offset % classes == 0:
        raise ValueError(f"target_offset {target_offset} is a multiple of the {classes} classes")
    _refuse_model(model)
    test = _drawn(data.splits["test"], sample)
    label = labels(test)
    batches = _batches(test, (label + target_offset) % classes, attack.batch_size)
    first = pixels_of(model, batches[0], engine)
    victim = find_victim(model, data, engine, first, seed=seed)
    has_gradient = gradient(victim.logits, first, batches[0].right.to(engine.device)).any()
    run = AttackRun(model, victim, batches, engine)
    clean = run.predictions(None)
    found, ties = {}, int(clean.tied.sum())
    for norm, goal, epsilon in _conditions(epsilons):
        one = Attack(norm, goal, epsilon, attack, seed)
        found[norm, goal, epsilon] = after = run.predictions(one) if epsilon else clean
        ties += int(after.tied.sum()) if epsilon else 0
    metric = "success_early_stop" if attack.early_stop else "success"
    scores = [_clean_accuracy(clean, label, classes)]
    for condition, after in found.items():
        scores += _successes(metric, condition, after, clean, classes)
    notes = [victim.note]
    notes += [] if has_gradient else [BLIND_NOTE.format(len(first))]
    notes += [] if (clean.right == 1).any() else [NONE_RIGHT_NOTE]
    return Outcome(scores=scores, counts={"n": len(test), "ties": ties}, notes=notes)


def _conditions(epsilons: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, str, float]]:
    """Yield norm, goal and epsilon."""
    for norm, sizes in epsilons.items():
        yield from ((norm, goal, float(size)) for goal in GOALS for size in sizes)


def _drawn(test: Split, sample: Sample | None) -> Split:
    """Return the sample in the order drawn, or all test images in their own order."""
    if sample is None:
        return test
    if not 1 <= sample.images <= len(test):
        raise TooFewRows(f"the test split has {len(test)} images, {sample.images} asked")
    # The paper's code draws from NumPy's older generator.
    order = np.random.RandomState(sample.seed).permutation(len(test))
    return test.select(order[: sample.images].tolist())


def _batches(test: Split, target: NDArray[np.int64], size: int) -> list[Batch]:
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


def _clean_accuracy(clean: Predictions, right: NDArray[np.int64], classes: int) -> Score:
    n = len(right)
    return Score(
        metric="clean_accuracy",
        n=n,
        chance=1 / classes,
        floors={"majority_class": int(np.bincount(right).max()) / n},
        **wilson(float(clean.right.sum()), n)._asdict(),
    )


def _successes(
    metric: str,
    condition: tuple[str, str, float],
    after: Predictions,
    clean: Predictions,
    classes: int,
) -> list[Score]:
    """Return the success on all images, and, if there are any, on those classified correctly."""
    norm, goal, epsilon = condition
    untargeted = goal == "untargeted"
    success = 1 - after.right if untargeted else after.target
    chance = {metric: 1 - 1 / classes if untargeted else 1 / classes}
    parts = {metric: success, f"{metric}_given_correct": success[clean.right == 1]}
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


def _refuse_epsilons(epsilons: Mapping[str, Sequence[float]]) -> None:
    for norm, sizes in epsilons.items():
        if norm not in ATTACKS:
            raise ValueError(f"no norm is named '{norm}'; there are {', '.join(ATTACKS)}")
        finite = all(0 <= size < np.inf for size in sizes)
        if not sizes or not finite or list(sizes) != sorted(set(sizes)):
            raise ValueError(f"epsilons of {norm} are {sizes}; wanted some of 0 or more, ascending")
    if not epsilons:
        raise ValueError(f"no epsilons; give some under {' or '.join(ATTACKS)}")


def _refuse_descent(descent: Descent) -> None:
    steps, rel_stepsize, batch_size, _ = descent
    if min(batch_size, steps) < 1 or not 0 < rel_stepsize < np.inf:
        given = f"batch_size {batch_size}, steps {steps}, rel_stepsize {rel_stepsize}"
        raise ValueError(f"{given}: the first two must be 1 or more, the last above 0")


def _refuse_model(model: Classifier | ImageEncoder) -> None:
    if not getattr(model, "differentiable", True):
        raise CannotDo("no gradient flows through this model, which says differentiable = False")
    if getattr(model, "ragged", False):
        raise CannotDo("this model keeps each picture's size; a batch is attacked at one size")
