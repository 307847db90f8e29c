"""Representational similarity: a model's matrix of distances between classes. arXiv:2104.08313, 4.

The probe scores the reliability of a model's matrix; `vlbench leaderboard build` compares the
matrices of models. `rsa` uses the mean feature of a class's test images, `rsa_text` the vector of
its name in a sentence. The condensed matrix is the artifact `rdm`, its classes are the artifact
`classes`. Departures: the paper does not report the noise of a model's matrix. `reliability` is the
correlation between the matrices of two halves of each class's images, corrected by the
Spearman-Brown formula to the correlation of two matrices of all images. If noise is large, the
errors of distances shrink faster than the formula assumes, and the reliability is too low (.25 for
matrices with a correlation of .31). `prompt_reliability` is the correlation between the matrices of
two sentences. The paper divides the distances of one model by deviations per dimension, and the
distances of other models by a single number; here a task has the same rule for all models. If the
data declare the category of each class, intervals are over categories.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import ImageEncoder, TextEncoder, TokenEncoder
from vlbench.data.names import spoken_names
from vlbench.data.records import Data, TestRows, fewest_rows, labels, same_images
from vlbench.engine import Engine
from vlbench.engine.layers import TEXTS, TOKENS
from vlbench.errors import TooFewRows, counted, listed
from vlbench.metrics.rdm_correlation import (
    correlations,
    full_length,
    jackknife,
    left_out,
    permuted,
    standardised,
)
from vlbench.probes.by_layer import layered
from vlbench.probes.generalization.class_vectors import class_vectors, encodes_whole_texts
from vlbench.probes.generalization.rdm import rdm_of_classes, rdm_of_vectors
from vlbench.results import Outcome, Positive, Score

ClassRule = Literal["scalar", "per_dimension", "cosine", "correlation"]
VectorRule = Literal["euclidean", "cosine", "correlation"]

# Two classes have a single distance, so that a correlation is undefined.
FEWEST_CLASSES = 3

# Leaving out a category must leave two, with distances between them.
FEWEST_CATEGORIES = 3

CONSTANT_NOTE = "all distances are the same, so the correlation is at chance"


@layered()
def rsa(
    model: ImageEncoder,
    data: TestRows,
    engine: Engine,
    *,
    rdm: ClassRule = "scalar",
    trials: Positive = 10,
    seed: int = 0,
) -> Outcome:
    """Return the reliability of the matrix of test images' class means, and the matrix.

    Each trial splits the images of every class into halves; if their number is odd, the first half
    is smaller. Copies of an image are in the same half. Raises TooFewRows, with the class, for a
    class of fewer than two images, or fewer than four under `per_dimension`, which needs a
    deviation in each half. The matrices are numbered in order of depth.

    Args:
        rdm: distance of class means: in standard errors over all entries (`scalar`) or
            `per_dimension`, or 1 minus their `cosine` or `correlation`.
        trials: random splits into halves, 1 or more; the reliability is their mean.
        seed: seed that draws the halves and the floor.
        layers: names of layers of the image encoder to score, or `all`; None scores the output.
    """
    if trials < 1:
        raise ValueError(f"{trials} trials; 1 or more are needed")
    test, names = data.splits["test"], data.classes
    _require_classes(data)
    rows = _rows(labels(test), same_images(test), names, 4 if rdm == "per_dimension" else 2)
    features = engine.features(model.encode_images, test["image"])
    whole = rdm_of_classes(features, [_join(row) for row in rows], names, rdm)
    rng = np.random.default_rng(seed)
    halves = [
        [rdm_of_classes(features, half, names, rdm) for half in _halves(rows, rng)]
        for _ in range(trials)
    ]
    score = _reliability("reliability", halves, data, seed, of_whole=full_length)
    return _outcome(score, whole, data, {"n": len(test), "clusters": len(set(_categories(data)))})


@layered(lambda model: TEXTS if encodes_whole_texts(model) else TOKENS)
def rsa_text(  # noqa: PLR0913 - the YAML fills all but three
    model: TokenEncoder | TextEncoder,
    data: Data,
    engine: Engine,
    *,
    prompt: str = "a photo of a {}.",
    other_prompt: str = "a picture of a {}.",
    synonyms: Positive = 2,
    tokens: Literal["first", "mean"] = "first",
    rdm: VectorRule = "euclidean",
    seed: int = 0,
) -> Outcome:
    """Return the correlation of the matrices of class names in two prompts, and the first matrix.

    {} stands for the names of a class, in lower case, joined by commas. If a model only encodes
    whole texts, or compares them with images like CLIP, the vector of the sentence is used. Raises
    CannotDo, with the class, if no token of its name has a vector.

    Args:
        prompt: sentence with {} for the names, whose matrix is kept.
        other_prompt: sentence with {} for the names, whose matrix is correlated with the first.
        synonyms: most names of a class that stand for {}, 1 or more.
        tokens: a class has the vector of its names' `first` token, or the `mean` over their tokens.
        rdm: distance between vectors: `euclidean`, `cosine` or `correlation`.
        seed: seed that draws the floor.
        layers: names of layers of the text encoder to score, or `all`; None scores the output.
    """
    _require_classes(data)
    for template in (prompt, other_prompt):
        if template.count("{}") != 1:
            raise ValueError(f"prompt '{template}' must have one {{}} for the class's name")
    spoken = spoken_names(data.classes)
    names = [", ".join(name.split(", ")[:synonyms]).lower() for name in spoken]
    refusal = "the model has no vector for"
    vectors = [
        class_vectors(engine, model, names, template, tokens=tokens, refusal=refusal)
        for template in (prompt, other_prompt)
    ]
    pair = [rdm_of_vectors(v, data.classes, rdm) for v in vectors]
    score = _reliability("prompt_reliability", [pair], data, seed)
    return _outcome(score, pair[0], data, {"n": len(names)})


def _require_classes(data: Data) -> None:
    if len(data.classes) < FEWEST_CLASSES:
        raise TooFewRows(f"{len(data.classes)} classes; a correlation needs {FEWEST_CLASSES}")
    if len(set(_categories(data))) < FEWEST_CATEGORIES:
        present = f"classes of {listed(set(_categories(data)))} alone"
        raise TooFewRows(f"{present}; an interval needs {FEWEST_CATEGORIES} categories")


def _categories(data: Data) -> Sequence[str]:
    """Return the category of each class; if the data have none, each class is a category."""
    return data.categories or data.classes


def _rows(
    label: NDArray[np.int64], images: Sequence[list[int]], names: Sequence[str], least: int
) -> list[list[list[int]]]:
    """Return the images of each class, each as the rows of all its copies in the class."""
    by_class: list[list[list[int]]] = [[] for _ in names]
    for rows in images:
        for number in sorted({int(label[row]) for row in rows}):
            by_class[number].append([row for row in rows if label[row] == number])
    counts = np.array([len(group) for group in by_class])
    scarce = int(counts.argmin())
    if counts[scarce] < least:
        present = f"class '{names[scarce]}' has {counted(counts[scarce], 'image')}"
        enough = fewest_rows(counts.tolist(), least)
        raise TooFewRows(f"{present}, halves need {least}", enough, is_stratified=True)
    return by_class


def _halves(rows: Sequence[list[list[int]]], rng: np.random.Generator) -> list[list[Tensor]]:
    """Return the rows of the first halves of the images of all classes, and of the second."""
    shuffled = [[row[i] for i in rng.permutation(len(row))] for row in rows]
    parts = [(order[: len(order) // 2], order[len(order) // 2 :]) for order in shuffled]
    return [[_join(half) for half in halves] for halves in zip(*parts, strict=True)]


def _join(images: Sequence[Sequence[int]]) -> Tensor:
    """Return the rows of some images, int64 [n]."""
    return torch.tensor([*chain(*images)])


def _reliability(
    metric: str,
    pairs: Sequence[Sequence[Tensor]],
    data: Data,
    seed: int,
    *,
    of_whole: Callable[[Any], Any] = np.asarray,
) -> Score:
    """Return the mean reliability of pairs of matrices, its interval and its floor.

    `of_whole` maps the correlation of a pair to the reliability.
    """
    groups = np.unique(_categories(data), return_inverse=True)[1]
    tables = [standardised((matrix.numpy() for matrix in pair), 2) for pair in pairs]
    values = [float(of_whole(correlations(table)[0, 1])) for table in tables]
    less = [of_whole(next(left_out(table, groups))[:, 0, 1]) for table in tables]
    return Score(
        metric=metric,
        value=float(np.mean(values)),
        n=len(data.classes),
        chance=0.0,
        floors={"class_permutations": float(of_whole(permuted(tables[0], seed=seed)[0, 1]))},
        draws=values if len(values) > 1 else (),
        unit="correlation",
        **jackknife(np.array(np.mean(values)), np.mean(less, axis=0))._asdict(),
    )


def _outcome(score: Score, matrix: Tensor, data: Data, counts: dict[str, int]) -> Outcome:
    import pyarrow as pa  # noqa: PLC0415 - planning a run must not wait for it

    names, categories = list(data.classes), list(_categories(data))
    zeros, why = int((matrix == 0).sum()), "counts the rows of the matrix"
    others = [
        Score("zero_distances", zeros, len(matrix), unit="pairs", higher_is_better=False),
        Score("n_classes", len(names), len(names), unit="classes"),
    ]
    constant = not standardised([matrix.numpy()], 1).any()
    return Outcome(
        scores=[score, *(replace(other, no_chance=why) for other in others)],
        counts=counts,
        artifacts={
            "rdm": matrix.float(),
            "classes": pa.table({"name": names, "category": categories}),
        },
        notes=[CONSTANT_NOTE] if constant else [],
    )
