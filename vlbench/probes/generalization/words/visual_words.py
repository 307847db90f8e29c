"""Words at the place where a model sees what they name: means of features, reduced by PCA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from vlbench.errors import CannotDo, TooFewRows
from vlbench.metrics.ranking import Choice, choose
from vlbench.probes.generalization.transfer import alike

# Rows in float64 at a time, and scores held at a time.
BLOCK = 4096


class Axes(NamedTuple):
    """A reduction by PCA: the mean [D], and the directions of most variance [D, d]; float64."""

    mean: Tensor
    directions: Tensor


class Seen(NamedTuple):
    """Words with vectors float32 [W, d], and what has one of them: images float32 [N, d].

    `label` [N] is an image's class, `right` [N] the number of its word.
    """

    words: list[str]
    vectors: Tensor
    images: Tensor
    label: Tensor
    right: Tensor


def see(
    features: Tensor,
    label: Tensor,
    word: Sequence[str],
    *,
    size: int,
    fitted_on: Literal["images", "classes"] = "images",
) -> Seen:
    """Return where the words of images stand that have features [N, D], a label [N] and a word.

    A word's vector is the mean of its classes' means; an image whose word is "" counts for PCA
    alone. Raises TooFewRows for fewer than two words, or for fewer images or words than dimensions,
    and CannotDo where the features have fewer.
    """
    words = sorted(set(word) - {""})
    if len(words) < 2:
        raise TooFewRows(f"the images have {len(words)} visual words; 2 or more are wanted")
    named = torch.tensor([bool(one) for one in word])
    right = torch.from_numpy(np.searchsorted(words, [one for one in word if one]))
    # What is left of features that are all the same is nothing, not its rounding.
    same = alike(features)
    unit = torch.zeros_like(features) if same else normalize(features.double(), dim=1).float()
    points = unit if fitted_on == "images" else _means(unit[named], label[named], right)
    images = _reduced(unit[named], _axes(points, size, fitted_on))
    return Seen(words, _means(images, label[named], right).float(), images, label[named], right)


def tell(images: Tensor, vectors: Tensor, right: Tensor) -> Choice:
    """Return the choice of the word with the highest cosine for each of [N, d] images."""
    nearest, ones = normalize(vectors, dim=1), torch.ones(BLOCK)
    choices = [
        choose(normalize(x, dim=1) @ nearest.T, y, scale=ones[: len(x)])
        for x, y in zip(torch.split(images, BLOCK), torch.split(right, BLOCK), strict=True)
    ]
    return Choice(torch.cat([c.credit for c in choices]), torch.cat([c.tied for c in choices]))


def tell_dealt(seen: Seen, seed: int) -> Choice:
    """Return the choices of `tell` if the images had been dealt out among the labels."""
    order = torch.randperm(len(seen.images), generator=torch.Generator().manual_seed(seed))
    dealt = seen.images[order]
    return tell(dealt, _means(dealt, seen.label, seen.right).float(), seen.right)


def _means(features: Tensor, label: Tensor, word: Tensor) -> Tensor:
    """Return the mean of each word's class means, float64 [W, D]."""
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


def _axes(points: Tensor, size: int, what: str) -> Axes:
    """Return the PCA of [N, D] points: of their covariance, or of few points by themselves."""
    n, width = points.shape
    if width < size:
        raise CannotDo(f"features of {width} dimensions cannot be reduced to {size}")
    if n < size:
        raise TooFewRows(f"PCA to {size} dimensions is to be fitted on {n} {what}")
    mean = torch.stack([x.double().sum(0) for x in torch.split(points, BLOCK)]).sum(0) / n
    if n <= width:
        _, _, rows = torch.linalg.svd(points.double() - mean, full_matrices=False)
        return Axes(mean, rows[:size].T)
    covariance = torch.zeros(width, width, dtype=torch.float64)
    for x in torch.split(points, BLOCK):
        centred = x.double() - mean
        covariance += centred.T @ centred
    return Axes(mean, torch.linalg.eigh(covariance).eigenvectors[:, -size:].flip(1))


def _reduced(points: Tensor, axes: Axes) -> Tensor:
    parts = [(x.double() - axes.mean) @ axes.directions for x in torch.split(points, BLOCK)]
    return torch.cat(parts).float()
