"""Zero-shot classification by class names in prompts. Radford et al. 2021, arXiv:2103.00020, 3.1.

A class is the mean of its prompts' text vectors, each of length one, again of length one.
`accuracy_raw_prompt_mean` is the rule in the code of arXiv:2104.08313: the mean of text vectors of
whatever length the model gives them, so that long ones count more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from vlbench.capabilities import DualEncoder
from vlbench.data.records import Data, labels, value_column
from vlbench.engine import Engine
from vlbench.errors import unknown
from vlbench.metrics.ranking import TIED, Choice, choose
from vlbench.metrics.statistics import wilson
from vlbench.probes.generalization.transfer import alike
from vlbench.results import Outcome, Score

# What open_clip calls the sets that a task may name.
PROMPT_SETS = {
    "openai_imagenet": "OPENAI_IMAGENET_TEMPLATES",
    "simple_imagenet": "SIMPLE_IMAGENET_TEMPLATES",
}
NAME_SETS = {"openai_imagenet": "IMAGENET_CLASSNAMES"}

# Similarities held at a time, however many images there are.
BLOCK = 1 << 20

# How many guesses the score `accuracy_top5` allows.
GUESSES = 5

ALIKE_NOTE = "the vectors of all images are the same: none tells classes apart, so chance"


def zero_shot(
    model: DualEncoder,
    data: Data,
    engine: Engine,
    *,
    prompts: list[str] | str = "a photo of a {}.",
    class_names: list[str] | str | None = None,
) -> Outcome:
    """Return the share of test images whose class name, put for {} into prompts, fits best.

    `prompts` is one, several, or a set of open_clip's: openai_imagenet or simple_imagenet;
    `class_names`, by default the data's own, may be its openai_imagenet. Where all images have the
    same vector, within 1e-6, all classes are tied; so are classes whose texts have the same vector.
    """
    test, names = data.splits["test"], _class_names(class_names, data.classes)
    chosen = _prompts(prompts)
    texts = [prompt.replace("{}", name) for name in names for prompt in chosen]
    vectors = engine.features(model.encode_texts, value_column(texts, "text"))
    vectors = vectors.view(len(names), -1, vectors.shape[1])
    means = {
        "accuracy": normalize(vectors, dim=2).mean(1),
        "accuracy_raw_prompt_mean": vectors.mean(1),
    }
    images = engine.features(model.encode_images, test["image"])
    same, right = alike(images), torch.from_numpy(labels(test))
    ranked = {}
    for metric, mean in means.items():
        classes = normalize(mean[:1].expand_as(mean) if same else mean, dim=1)
        ranked[metric] = rank(model, images, classes, right, engine.device)
    scores = [
        _score(metric, found.first.credit, right, len(names)) for metric, found in ranked.items()
    ]
    if len(names) > GUESSES:
        credit = ranked["accuracy"].among
        scores.append(_score("accuracy_top5", credit, right, len(names), guesses=GUESSES))
    ties = int(ranked["accuracy"].first.tied.sum())
    counts = {"n": len(right), "ties": ties} | truncated(model, texts)
    return Outcome(scores=scores, counts=counts, notes=[ALIKE_NOTE] if same else [])


class Ranking(NamedTuple):
    """What the first guess earns, and the credit float64 [N] of five guesses."""

    first: Choice
    among: Tensor


@torch.no_grad()
def rank(
    model: DualEncoder, images: Tensor, classes: Tensor, right: Tensor, device: torch.device
) -> Ranking:
    """Return how the model ranks the right one [N] of [C, D] classes for [N, D] images."""
    first = _first_alike(classes)
    classes = classes.to(device)
    credit, tied, among = [], [], []
    rows = max(1, BLOCK // len(classes))
    for x, y in zip(torch.split(images, rows), torch.split(right, rows), strict=True):
        scores = model.similarity(x.to(device), classes).float().cpu()[:, first]
        choice = choose(scores, y)
        credit.append(choice.credit)
        tied.append(choice.tied)
        among.append(credit_among(scores, y, GUESSES))
    return Ranking(Choice(torch.cat(credit), torch.cat(tied)), torch.cat(among))


def credit_among(scores: Tensor, right: Tensor, guesses: int | Tensor) -> Tensor:
    """Return how likely the right one [N] is among so many highest of [N, C] scores, float64 [N].

    Scores within 1e-6 of the row's largest |score| are tied, and their order is chance. Several
    numbers of guesses, [K, 1], give [K, N].
    """
    own = scores.gather(1, right.unsqueeze(1))
    margin = TIED * scores.abs().amax(1, keepdim=True)
    better = (scores > own + margin).sum(1)
    tied = ((scores - own).abs() <= margin).sum(1)
    return ((guesses - better).double() / tied).clamp(0, 1)


def _first_alike(classes: Tensor) -> Tensor:
    """Return for each of [C, D] vectors the first that equals it within 1e-6, int64 [C].

    A cosine near zero is all rounding: the similarities alone would not show that these are tied.
    """
    gaps = torch.cdist(classes, classes, p=torch.inf)
    return (gaps <= TIED * classes.abs().amax()).int().argmax(1)


def _prompts(given: list[str] | str) -> list[str]:
    prompts = [given] if isinstance(given, str) else given
    if isinstance(given, str) and given in PROMPT_SETS:
        prompts = _of_open_clip(PROMPT_SETS[given])
    wrong = [prompt for prompt in prompts if "{}" not in prompt]
    if wrong or not prompts:
        what = f"prompt '{wrong[0]}' has no {{}} for the class's name" if wrong else "no prompts"
        raise ValueError(f"{what}; sets of prompts are {', '.join(PROMPT_SETS)}")
    return prompts


def _class_names(given: list[str] | str | None, classes: Sequence[str]) -> list[str]:
    if isinstance(given, str) and given not in NAME_SETS:
        raise unknown("set of class names", given, NAME_SETS)
    names = _of_open_clip(NAME_SETS[given]) if isinstance(given, str) else given
    names = list(classes) if names is None else names
    if len(names) != len(classes):
        raise ValueError(f"{len(names)} class names for the {len(classes)} classes of the data")
    return names


def _of_open_clip(name: str) -> list[str]:
    """Return a set of open_clip's as texts: its prompts are functions of the class's name."""
    import open_clip  # noqa: PLC0415 - takes seconds, for a task that names a set

    return [item("{}") if callable(item) else item for item in getattr(open_clip, name)]


def truncated(model: Any, texts: Sequence[str]) -> dict[str, int]:
    """Return how many texts the model cuts, where it says so."""
    if not (hasattr(model, "count_tokens") and hasattr(model, "context_length")):
        return {}
    return {"truncated_texts": sum(n > model.context_length for n in model.count_tokens(texts))}


def _score(metric: str, credit: Tensor, right: Tensor, classes: int, guesses: int = 1) -> Score:
    n, common = len(right), right.bincount(minlength=classes).topk(guesses).values
    floor = "majority_class" if guesses == 1 else "majority_classes"
    return Score(
        metric=metric,
        n=n,
        chance=guesses / classes,
        floors={floor: int(common.sum()) / n},
        **wilson(float(credit.sum()), n)._asdict(),
    )
