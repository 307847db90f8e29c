"""Robustness to random projected gradient descent. arXiv:2104.08313, section 3.4.

`success` is the fraction of perturbed images that are classified as a wrong class (untargeted), or
as the class `target_offset` further on (targeted), whether or not the image was classified
correctly before. At epsilon 0, untargeted, it is 1 - `clean_accuracy`. Its chance level is the
score of a model that cannot distinguish classes: 1 - 1/K and 1/K for K classes.
`success_given_correct` is the same among images that were classified correctly before; an image
tied among k classes counts 1/k, so that a model whose classes are all tied is at chance. At epsilon
0 it has no chance level, because right images stay right. A tie after the attack counts in part, as
in every score; foolbox's success criterion has no ties.

Epsilon is in units of pixels in [0, 1], at the adapter's image size; normalisation is part of the
attacked model. At epsilon 0 no attack is run. Departures from the paper's code: every draw is
seeded; a model without a classifier gets a linear head, trained as in `transfer` on features of
images that are not augmented (the paper gives no settings). `success_early_stop`, off by default,
is a different rule: an attack succeeds on an image if it succeeds after any step, not only after
the last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.capabilities import Classifier, ImageEncoder
from vlbench.data.records import Data, Split, labels, require_classes
from vlbench.engine import Engine
from vlbench.errors import CannotDo, TooFewRows, counted
from vlbench.metrics.intervals import wilson
from vlbench.metrics.items import Measured, outcome_of
from vlbench.metrics.ranking import Choice
from vlbench.metrics.scores import measure_items
from vlbench.probes.generalization.categories import class_items, measured_images, of_classes
from vlbench.probes.generalization.rpgd import (
    ATTACKS,
    GOALS,
    PAPER_DESCENT,
    Attack,
    Descent,
    gradient,
)
from vlbench.probes.generalization.victims import (
    AttackBatch,
    AttackRun,
    Predictions,
    find_victim,
    pixels_of,
)
from vlbench.results import Outcome, Positive, Score

BLIND_NOTE = (
    "the gradient of the first {} images is 0 everywhere: the attack has no gradient to follow, "
    "so low success does not mean the model is robust"
)


class Sample(NamedTuple):
    """`images` test images, drawn with a seed."""

    images: Positive = 1000
    seed: int = 42


# As in the paper's code.
PAPER_SAMPLE = Sample()


def robustness(  # noqa: PLR0913 - the YAML fills all but three
    model: Classifier | ImageEncoder,
    data: Annotated[Data, "test", ...],  # a head is trained on the train images
    engine: Engine,
    *,
    epsilons: dict[str, list[float]],
    target_offset: int,
    goals: Sequence[str] = GOALS,
    sample: Sample | None = PAPER_SAMPLE,
    attack: Descent = PAPER_DESCENT,
    seed: int = 0,
    categories: list[str] | None = None,
) -> Outcome:
    """Return the success of attacks on test images, for each norm, goal and epsilon.

    Outputs and classes are paired as in `pair_classes`. Raises ValueError for settings that cannot
    attack, TooFewRows for fewer test images than the sample.

    Args:
        epsilons: sizes of attacks under `linf`, `l2` or both, 0 or more, ascending; pixels are in
            [0, 1].
        target_offset: the target of class y is (y + target_offset) mod K; no multiple of the K
            classes.
        goals: `untargeted`, `targeted`, or both.
        sample: number of test `images` and the `seed` that draws them, as in the paper's code; None
            takes all.
        attack: `steps`, `rel_stepsize` in units of epsilon, `batch_size` of a random start,
            `early_stop`.
        seed: seed that draws the random starts, and trains the head of a model without a
            classifier.
        categories: classes whose images are attacked and train a head, two or more; None takes all.
    """
    data = data if categories is None else of_classes(data, categories)
    require_classes(data)
    classes = len(data.classes)
    _refuse_attacks(epsilons, goals, attack)
    if target_offset % classes == 0:
        raise ValueError(f"target_offset {target_offset} is a multiple of the {classes} classes")
    _refuse_model(model)
    test = _draw_sample(data.splits["test"], sample)
    batches = _batches(test, target_offset, classes, attack.batch_size)
    first = pixels_of(model, batches[0], engine)
    victim = find_victim(model, data, engine, first, seed=seed)
    has_gradient = gradient(victim.logits, first, batches[0].right.to(engine.device)).any()
    run = AttackRun(model, victim, batches, engine)
    attacks = [
        Attack(norm, goal, float(epsilon), attack, seed)
        for norm, sizes in epsilons.items()
        for goal in goals
        for epsilon in sizes
    ]
    predictions: dict[Attack | None, Predictions] = {None: (clean := run.predictions(None))}
    if not clean.right.any():
        raise CannotDo(
            f"the model classifies none of {len(test)} images correctly, so there is nothing to "
            "attack"
        )
    predictions |= {attempt: run.predictions(attempt) for attempt in attacks if attempt.epsilon}
    choice = Choice(clean.right, clean.tied, clean.chosen)
    scores = [measure_items(class_items("clean_accuracy", [choice], test, data.classes))]
    for attempt in attacks:
        after = predictions[attempt if attempt.epsilon else None]
        scores += _successes(attempt, after, clean, test, data.classes)
    notes = victim.notes + ([] if has_gradient else [BLIND_NOTE.format(len(first))])
    tied = [prediction.tied for prediction in predictions.values()]
    counts = {
        "n": len(test),
        "ties": sum(int(is_tied.sum()) for is_tied in tied),
        "choices": sum(map(len, tied)),
    }
    return outcome_of(scores, counts, notes)


def _draw_sample(test: Split, sample: Sample | None) -> Split:
    """Return the sample in the order drawn, or all test images in the order of the data."""
    if sample is None:
        return test
    if not 1 <= sample.images <= len(test):
        present = f"the test split has {counted(len(test), 'image')}, {sample.images} requested"
        raise TooFewRows(present, sample.images)
    # The paper's code uses NumPy's older generator.
    order = np.random.RandomState(sample.seed).permutation(len(test))
    return test.select(order[: sample.images].tolist())


def _batches(test: Split, target_offset: int, classes: int, size: int) -> list[AttackBatch]:
    right = labels(test)
    target = (right + target_offset) % classes
    return [
        AttackBatch(
            number=number,
            images=test["image"].select(range(start, min(start + size, len(test)))),
            right=torch.from_numpy(right[start : start + size]),
            target=torch.from_numpy(target[start : start + size]),
        )
        for number, start in enumerate(range(0, len(test), size))
    ]


def _successes(
    attack: Attack, after: Predictions, clean: Predictions, test: Split, names: Sequence[str]
) -> list[Measured]:
    """Return the success on all images, and on correctly classified images."""
    metric = "success_early_stop" if attack.descent.early_stop else "success"
    untargeted = attack.goal == "untargeted"
    success, classes = 1 - after.right if untargeted else after.target, len(names)
    chance = 1 - 1 / classes if untargeted else 1 / classes
    everywhere = _success(metric, attack, success, torch.ones_like(success), chance)
    of_correct = chance if attack.epsilon else None
    conditional = _success(f"{metric}_given_correct", attack, success, clean.right, of_correct)
    parts = torch.stack([success * clean.right, clean.right], 1).double().numpy()
    of_right = measured_images(conditional, success * clean.right, after.chosen, test, names)
    return [
        measured_images(everywhere, success, after.chosen, test, names),
        of_right._replace(statistics=parts),
    ]


def _success(
    metric: str, attack: Attack, credit: Tensor, weight: Tensor, chance: float | None
) -> Score:
    """Return the weighted mean of credits; an image of weight 0 does not count."""
    n = int(weight.count_nonzero())
    return Score(
        metric=metric,
        at={"norm": attack.norm, "goal": attack.goal, "epsilon": attack.epsilon},
        n=n,
        chance=chance,
        higher_is_better=False,
        no_chance="" if chance else "epsilon 0 changes no image, so right answers stay right",
        **wilson(float((credit * weight).sum() / weight.sum()) * n, n)._asdict(),
    )


def _refuse_attacks(
    epsilons: Mapping[str, Sequence[float]], goals: Sequence[str], descent: Descent
) -> None:
    if not goals or len(set(goals)) < len(goals) or not set(goals) <= set(GOALS):
        raise ValueError(f"goals are {list(goals)}; use some of {', '.join(GOALS)}")
    for norm, sizes in epsilons.items():
        if norm not in ATTACKS:
            raise ValueError(f"no norm is named '{norm}'; there are {', '.join(ATTACKS)}")
        finite = all(0 <= size < np.inf for size in sizes)
        if not sizes or not finite or list(sizes) != sorted(set(sizes)):
            raise ValueError(f"epsilons of {norm} are {sizes}; use some of 0 or more, ascending")
    if not epsilons:
        raise ValueError(f"no epsilons; give some under {' or '.join(ATTACKS)}")
    steps, rel_stepsize, batch_size, _ = descent
    if min(batch_size, steps) < 1 or not 0 < rel_stepsize < np.inf:
        text = f"batch_size {batch_size}, steps {steps}, rel_stepsize {rel_stepsize}"
        raise ValueError(f"{text}: the first two must be 1 or more, the last above 0")


def _refuse_model(model: Classifier | ImageEncoder) -> None:
    if not getattr(model, "differentiable", True):
        raise CannotDo("this model has no gradient (differentiable = False)")
    if getattr(model, "ragged", False):
        raise CannotDo("this model keeps each picture's size, but a batch is attacked at one size")
