"""Similarity of a model's image vectors to the vectors of a companion: CKA and mutual neighbours.

`similarity` compares two image models, `caption_similarity` a model's images with captions encoded
by a companion, and `text_similarity` a model's captions with images encoded by a companion.
`cka_debiased` is Kornblith et al. 2019, arXiv:1905.00414, debiased as in arXiv:2010.15327;
`mutual_knn` is Huh et al. 2024, arXiv:2405.07987; `rdm_correlation` is Pearson's correlation of the
Euclidean distances between up to 1,000 images. Chance is the exact mean over all permutations of
the companion's rows. It is 0 for CKA and for the distances, which need no calibration;
`mutual_knn_calibrated` is (mutual_knn - chance) / (1 - chance). Similarity does not measure
quality, and its meaning depends on the companion. If images are copies of each other, only the
first counts, because copies would make any two models look similar.

`similarity` and `text_similarity` store the kernel of up to 1,000 images, or of their captions, as
the artifact `kernel`, with the names of the images. With it, `vlbench leaderboard build` compares
all models with each other, including image models with text models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlbench.capabilities import ImageEncoder, TextEncoder, count_truncated
from vlbench.data.records import Data, TestRows, same_images
from vlbench.engine import Engine
from vlbench.engine.layers import TEXTS
from vlbench.metrics.ranking import all_equal
from vlbench.metrics.rdm_correlation import correlations, jackknife, left_out, standardised
from vlbench.metrics.representation_similarity import (
    block_jackknife,
    calibrated,
    centred_kernel,
    cka_left_out,
    draw_blocks,
    mutual_knn_left_out,
    tied_neighbours,
)
from vlbench.probes.by_layer import layered
from vlbench.probes.generalization.rdm import rdm_of_vectors
from vlbench.results import Outcome, Positive, Score

# A kernel of MOST_IMAGES images adds 2 MB to a row.
MOST_IMAGES = 1_000

# Measured in benchmarks/coverage.py.
WIDTH_NOTE = (
    "intervals: for mutual_knn up to 1.7 times as wide as necessary; for rdm_correlation, they "
    "contain the true value in only 88 to 90 % of draws if vector lengths are heavy-tailed"
)

# The encoder of a column, and the name of the column, for each of two sides.
Sides = Sequence[tuple[Callable[[Any], Tensor], str]]

OWN_COMPANION_NOTE = "the model is compared with itself, so they are similar by definition"

# Above this fraction of examples with tied neighbours, a note says so.
MANY_TIED = 0.1
TIED_NOTE = (
    "mutual_knn is drawn to chance by ties: {:.0%} of the images have neighbours in the vectors of "
    "the {} whose cosines differ by at most 1e-6"
)

SIZE_NOTE = "mutual_knn depends on the number of images: {:,} here, 1,024 in arXiv:2405.07987"


@layered(artifacts=False)
def similarity(
    model: ImageEncoder,
    data: TestRows,
    engine: Engine,
    *,
    companion: ImageEncoder,
    k: Positive = 10,
    blocks: Positive = 20,
    seed: int = 0,
) -> Outcome:
    """Return the similarity of a model's vectors of the test images to the companion's vectors.

    Raises TooFewRows for fewer than two images per block, and if `k` or fewer other images are
    left.

    Args:
        companion: image encoder with which the model is compared.
        k: number of nearest neighbours in `mutual_knn`, 1 or more.
        blocks: random blocks of images, 2 or more; intervals leave out one at a time.
        seed: seed that draws the blocks, and the images of the kernel and of `rdm_correlation`.
        layers: names of layers of the image encoder to score, or `all`; None scores the output.
    """
    sides: Sides = [(model.encode_images, "image"), (companion.encode_images, "image")]
    outcome = _compare(sides, data, engine, k, blocks, seed)
    is_own = engine.name_of(model) == engine.name_of(companion)
    return replace(outcome, notes=[*outcome.notes, *([OWN_COMPANION_NOTE] if is_own else [])])


def caption_similarity(
    model: ImageEncoder,
    data: TestRows,
    engine: Engine,
    *,
    companion: TextEncoder,
    k: Positive = 10,
    blocks: Positive = 20,
    seed: int = 0,
) -> Outcome:
    """Return the similarity of a model's vectors of images to the companion's vectors of captions.

    The captions are in the column `caption`. Raises the same errors as `similarity`.

    Args:
        companion: text encoder that reads the captions.
        k: number of nearest neighbours in `mutual_knn`, 1 or more.
        blocks: random blocks of images, 2 or more; intervals leave out one at a time.
        seed: seed that draws the blocks, and the images of the kernel and of `rdm_correlation`.
    """
    sides: Sides = [(model.encode_images, "image"), (companion.encode_texts, "caption")]
    outcome = _compare(sides, data, engine, k, blocks, seed, reader=companion)
    return replace(outcome, artifacts={})


@layered(lambda _: TEXTS, artifacts=False)
def text_similarity(
    model: TextEncoder,
    data: TestRows,
    engine: Engine,
    *,
    companion: ImageEncoder,
    k: Positive = 10,
    blocks: Positive = 20,
    seed: int = 0,
) -> Outcome:
    """Return the similarity of a model's vectors of captions to the companion's vectors of images.

    Captions and errors are the same as in `caption_similarity`.

    Args:
        companion: image encoder that sees the images.
        k: number of nearest neighbours in `mutual_knn`, 1 or more.
        blocks: random blocks of images, 2 or more; intervals leave out one at a time.
        seed: seed that draws the blocks, and the images of the kernel and of `rdm_correlation`.
        layers: names of layers of the text encoder to score, or `all`; None scores the output.
    """
    sides: Sides = [(model.encode_texts, "caption"), (companion.encode_images, "image")]
    return _compare(sides, data, engine, k, blocks, seed, reader=model)


def _compare(
    sides: Sides,
    data: Data,
    engine: Engine,
    k: int,
    blocks: int,
    seed: int,
    *,
    reader: TextEncoder | None = None,
) -> Outcome:
    """Return the similarity of two sides (encoder and column) on the distinct test images.

    Captions cut by a `reader` are counted.
    """
    test = data.splits["test"]
    rows = [first for first, *_ in same_images(test)]
    x, y = (engine.features(encode, test[column])[rows] for encode, column in sides)
    ids = test["image"].ids
    cut = count_truncated(reader, list(test["caption"])) if reader else {}
    return Outcome(
        scores=scores_of(x, y, k, blocks, seed),
        counts={"n": len(x), **cut},
        artifacts=_kernel(x, [ids[row] for row in rows], blocks, seed),
        notes=_notes(x, y, k),
    )


def _draw(n: int, blocks: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of up to 1,000 of n images, drawn by the seed, and the block of each."""
    rows = np.sort(np.random.default_rng(seed).permutation(n)[:MOST_IMAGES])
    block = np.empty(len(rows), np.int64)
    for number, places in enumerate(draw_blocks(len(rows), blocks, np.random.default_rng(seed))):
        block[places.numpy()] = number
    return rows, block


def _kernel(x: Tensor, names: Sequence[str], blocks: int, seed: int) -> dict[str, Any]:
    """Return the kernel of some images, their names and blocks, as artifacts."""
    import pyarrow as pa  # noqa: PLC0415 - planning a run must not wait for it

    rows, block = _draw(len(x), blocks, seed)
    table = {"name": [names[row] for row in rows], "category": [f"block {b}" for b in block]}
    return {"kernel": centred_kernel(x[torch.from_numpy(rows)]).float(), "images": pa.table(table)}


def _rdm_correlation(x: Tensor, y: Tensor, blocks: int, seed: int) -> Score:
    """Return the correlation of the distances between some images in [N, D1] and in [N, D2]."""
    rows, block = _draw(len(x), blocks, seed)
    names = [str(row) for row in rows]
    matrices = (rdm_of_vectors(side[torch.from_numpy(rows)], names, "euclidean") for side in (x, y))
    table = standardised((matrix.numpy() for matrix in matrices), 2)
    whole = correlations(table)[:1]
    around = jackknife(whole, next(left_out(table, block))[:, :1])
    low, high = (ends[0][1] for ends in around.ci95)
    return Score(
        "rdm_correlation",
        float(whole[0, 1]),
        len(rows),
        stderr=around.stderr[0][1],
        ci95=(low, high),
        chance=0.0,
        unit="correlation",
    )


def scores_of(x: Tensor, y: Tensor, k: int, blocks: int, seed: int) -> list[Score]:
    """Return the similarities of [N, D1] and [N, D2], with their chance."""
    n = len(x)
    drawn = draw_blocks(n, blocks, np.random.default_rng(seed))
    cka = cka_left_out(x, y, drawn).tolist()
    mutual = mutual_knn_left_out(x, y, k, drawn).tolist()
    # Chance depends on the number of images left, so the interval is computed for the value above
    # chance.
    chance, *without = [k / (size - 1) for size in (n, *(n - len(block) for block in drawn))]
    above = [calibrated(*pair) for pair in zip(mutual, [chance, *without], strict=True)]
    least = calibrated(0.0, chance)
    estimate = block_jackknife(above, n, least, 1.0)
    low, high = (chance + (1 - chance) * end for end in estimate.ci95)
    return [
        Score(
            "cka_debiased",
            n=n,
            chance=0.0,
            unit="correlation",
            **block_jackknife(cka, n, -1.0, 1.0)._asdict(),
        ),
        _rdm_correlation(x, y, blocks, seed),
        Score(
            "mutual_knn",
            mutual[0],
            n,
            {"k": k},
            stderr=(1 - chance) * estimate.stderr,
            ci95=(low, high),
            chance=chance,
        ),
        Score(
            "mutual_knn_calibrated",
            n=n,
            at={"k": k},
            chance=0.0,
            range=(least, 1.0),
            **estimate._asdict(),
        ),
    ]


def _notes(x: Tensor, y: Tensor, k: int) -> list[str]:
    """Return notes on intervals, on n, on vectors that are all equal, and on tied neighbours."""
    equal, tied = list[str](), list[str]()
    for name, vectors in (("model", x), ("companion", y)):
        if all_equal(vectors):
            equal.append(
                f"the vectors of the {name} are all the same, so the similarity is at chance"
            )
        elif (share := tied_neighbours(vectors, k)) > MANY_TIED:
            tied.append(TIED_NOTE.format(share, name))
    return [*equal, *tied, SIZE_NOTE.format(len(x)), WIDTH_NOTE]
