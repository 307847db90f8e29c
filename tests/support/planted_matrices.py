"""Rows that keep a matrix of nine classes, and boards of them."""

import numpy as np
import pyarrow as pa
import torch
from planted_boards import board, counts, result
from scipy.spatial.distance import pdist

from vlbench.boards.board import save_artifacts

CLASSES = [f"class {i}" for i in range(9)]


def matrix(seed, shared=0):
    """Return a condensed matrix of 9 points, near those of the seed `shared`."""
    points = np.random.default_rng(shared).normal(size=(9, 4))
    noise = np.random.default_rng(100 + seed).normal(size=(9, 4))
    return torch.from_numpy(pdist(points + 0.3 * noise)).float()


def row(output, task, model, distances, *, classes=CLASSES, categories=None, **rest):
    table = pa.table({"name": classes, "category": categories or classes})
    artifacts = {"rdm": distances, "classes": table}
    saved = save_artifacts(output, task, model, artifacts)
    return result(model, **{"task": task, "counts": counts(9, 9), "artifacts": saved} | rest)


def clip(output):
    return row(output, "rsa_x", "clip", matrix(0))


def two_boards(output, *odd):
    """Return a board of clip, rn50 and odd rows, and one of bert and clip."""
    vision = [clip(output), row(output, "rsa_x", "rn50", matrix(1)), *odd]
    texts = [
        row(output, "rsa_x_text", name, matrix(i, shared=1), comparable="b")
        for i, name in enumerate(("bert", "clip"))
    ]
    return [board(*vision, task="rsa_x"), board(*texts, task="rsa_x_text")]
