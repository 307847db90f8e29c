"""Visual words: the vector of a word is the mean of its images' features, reduced by PCA.

arXiv:2104.08313, section 5. Departure: features are normalised before PCA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from vlbench.engine.pass_checks import SMALLEST
from vlbench.errors import CannotDo, TooFewRows
from vlbench.metrics.ranking import Choice, all_equal, choose, join_choices

# Rows converted to float64, or compared with words, at a time.
BLOCK = 4096


class Components(NamedTuple):
    """A PCA: the mean [D], and the principal directions [D, d]; float64."""

    mean: Tensor
    directions: Tensor


class VisualWords(NamedTuple):
    """Words with vectors float32 [W, d], and reduced features float32 [N, d] of their images.

    `label` [N] is the class of an image, `right` [N] the number of its word.
    """

    words: list[str]
    vectors: Tensor
    images: Tensor
    label: Tensor
    right: Tensor


def visual_words(
    features: Tensor,
    label: Tensor,
    word: Sequence[str],
    *,
    size: int,
    fitted_on: Literal["images", "classes"] = "images",
) -> VisualWords:
    """Return the visual words of images with features [N, D], a label [N] and a word each.

    A word's vector is the mean of its classes' means, in `size` dimensions. Images with the word ""
    are only used for PCA. Raises TooFewRows for fewer than two words, or for fewer images or
    classes than dimensions, and CannotDo for features of fewer dimensions.
    """
    words = sorted(set(word) - {""})
    if len(words) < 2:
        raise TooFewRows(f"the images have {len(words)} visual words; 2 or more are needed")
    named = torch.tensor([bool(name) for name in word])
    right = torch.from_numpy(np.searchsorted(words, [name for name in word if name]))
    # PCA of equal features would fit their rounding errors.
    equal = all_equal(features)
    unit = torch.zeros_like(features)
    if not equal:
        unit = normalize(features.double(), dim=1, eps=SMALLEST).float()
    points = unit if fitted_on == "images" else _means(unit[named], label[named], right)
    images = _reduce(unit[named], _components(points, size, fitted_on))
    return VisualWords(
        words, _means(images, label[named], right).float(), images, label[named], right
    )


def nearest_words(images: Tensor, vectors: Tensor, right: Tensor) -> Choice:
    """Return the choice of the word with the highest cosine for each of [N, d] images."""
    directions, ones = normalize(vectors, dim=1), torch.ones(BLOCK)
    return join_choices(
        [
            choose(normalize(x, dim=1) @ directions.T, y, scale=ones[: len(x)])
            for x, y in zip(torch.split(images, BLOCK), torch.split(right, BLOCK), strict=True)
        ]
    )


def nearest_words_of_shuffled_labels(visual: VisualWords, seed: int) -> Choice:
    """Return the choices of `nearest_words` with the labels of the images shuffled."""
    order = torch.randperm(len(visual.images), generator=torch.Generator().manual_seed(seed))
    images = visual.images[order]
    vectors = _means(images, visual.label, visual.right).float()
    return nearest_words(images, vectors, visual.right)


def _means(features: Tensor, label: Tensor, word: Tensor) -> Tensor:
    """Return the mean over each word's classes of the class means, float64 [W, D]."""
    classes, places = np.unique(label.numpy(), return_inverse=True)
    place = torch.from_numpy(places)
    of_class = torch.empty(len(classes), dtype=torch.int64).index_copy_(0, place, word)
    sums = torch.zeros(len(classes), features.shape[1], dtype=torch.float64)
    for x, rows in zip(torch.split(features, BLOCK), torch.split(place, BLOCK), strict=True):
        sums.index_add_(0, rows, x.double())
    means = sums / place.bincount().unsqueeze(1)
    n_words = int(of_class.max()) + 1
    totals = torch.zeros(n_words, features.shape[1], dtype=torch.float64)
    return totals.index_add_(0, of_class, means) / of_class.bincount().unsqueeze(1)


def _components(points: Tensor, size: int, what: str) -> Components:
    """Return the PCA of [N, D] points: from their covariance, or from an SVD for few points."""
    n, width = points.shape
    if width < size:
        raise CannotDo(f"features of {width} dimensions cannot be reduced to {size}")
    if n < size:
        raise TooFewRows(f"PCA to {size} dimensions cannot be fitted on {n} {what}")
    mean = torch.stack([x.double().sum(0) for x in torch.split(points, BLOCK)]).sum(0) / n
    if n <= width:
        _, _, rows = torch.linalg.svd(points.double() - mean, full_matrices=False)
        return Components(mean, rows[:size].T)
    covariance = torch.zeros(width, width, dtype=torch.float64)
    for x in torch.split(points, BLOCK):
        centred = x.double() - mean
        covariance += centred.T @ centred
    return Components(mean, torch.linalg.eigh(covariance).eigenvectors[:, -size:].flip(1))


def _reduce(points: Tensor, components: Components) -> Tensor:
    parts = [
        (x.double() - components.mean) @ components.directions for x in torch.split(points, BLOCK)
    ]
    return torch.cat(parts).float()
