"""Floors of a probe's accuracy from one column of the data, without a model.

If things have typical colours, a model that recognises a colour seems to recognise the thing. The
floor is the score of the same probe on features of the column instead of the model's features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.data.records import Split, labels
from vlbench.engine import Engine
from vlbench.metrics.ranking import choose

# Number of levels of red, green and blue in a histogram.
LEVELS = 4


def blind_features(splits: Mapping[str, Split], column: str, engine: Engine) -> dict[str, Tensor]:
    """Return float32 [N, D] per split: histograms of images, or a 0/1 vector of words per row.

    A histogram has the fraction of pixels of each of 64 colours, standardised over all rows. Words
    are a text or several texts. Histograms are stored like features, because all models share them.
    """
    columns = {name: rows[column] for name, rows in splits.items()}
    if all(cells.kind == "image" for cells in columns.values()):
        key = {"what": "colour histograms"}
        rows_of = [engine.map(colour_histograms, cells, key=key) for cells in columns.values()]
        histograms = torch.stack([row for rows in rows_of for row in rows])
        spread = histograms.std(0)
        whole = (histograms - histograms.mean(0)) / torch.where(spread > 0, spread, 1.0)
        parts = torch.split(whole, [len(cells) for cells in columns.values()])
        return dict(zip(columns, parts, strict=True))
    words = {
        name: [[value] if isinstance(value, str) else value for value in texts]
        for name, texts in columns.items()
    }
    vocabulary = {word for rows in words.values() for row in rows for word in row}
    place = {word: i for i, word in enumerate(sorted(vocabulary))}
    word_vectors = {name: torch.zeros(len(rows), len(place)) for name, rows in words.items()}
    for name, rows in words.items():
        for i, row in enumerate(rows):
            word_vectors[name][i, [place[word] for word in row]] = 1.0
    return word_vectors


def colour_histograms(images: Sequence[Image]) -> list[Tensor]:
    """Return the fraction of pixels of each of 64 colours, float32 [64], for each image."""
    histograms = []
    for image in images:
        levels = np.asarray(image.convert("RGB"), np.int64) * LEVELS // 256
        codes = levels @ [LEVELS**2, LEVELS, 1]
        fractions = np.bincount(codes.ravel(), minlength=LEVELS**3) / codes.size
        histograms.append(torch.from_numpy(fractions.astype(np.float32)))
    return histograms


def nearest_mean_accuracy(rows: Split, column: str, engine: Engine) -> float:
    """Return how often an image is nearest, by a column, to the mean of its class's other images.

    A class of a single image has no other images, and is never the nearest. Ties share the credit.
    """
    features = blind_features({"test": rows}, column, engine)["test"].double()
    right = torch.from_numpy(labels(rows))
    member = torch.nn.functional.one_hot(right).double()
    sums, counts = member.T @ features, member.sum(0)
    near = []
    for x, y in zip(features, right.tolist(), strict=True):
        others = counts.clone()
        others[y] -= 1
        means = sums.clone()
        means[y] -= x
        distance = (means / others.clamp(min=1)[:, None] - x).square().sum(1)
        near.append(-torch.where(others > 0, distance, distance.max() + 1))
    return float(choose(torch.stack(near).float(), right).credit.mean())
