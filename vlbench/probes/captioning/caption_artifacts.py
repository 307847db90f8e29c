"""Tables of captions with their scores, and pictures of a few test images to show them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa

from vlbench.metrics.statistics import Floats
from vlbench.probes.captioning.caption_scores import BEFORE, FAVOURITES, REFERENCE
from vlbench.probes.captioning.subjects import Subjects

# Images that are shown, and their longer side in pixels.
SHOWN, SIDE = 12, 192

_TEXTS = (REFERENCE, BEFORE, FAVOURITES)
_SCORES = tuple(f"{kind}_score" for kind in _TEXTS)

CAPTIONS = pa.schema(
    [
        ("id", pa.string()),
        ("digest", pa.string()),
        ("seed", pa.int32()),
        *((name, pa.string()) for name in _TEXTS),
        *((name, pa.float64()) for name in _SCORES),
    ]
)
EXAMPLES = CAPTIONS.append(pa.field("image", pa.binary()))


def caption_table(subjects: Subjects, scores: Mapping[str, Floats]) -> pa.Table:
    """Return a row per test image and seed: first reference, caption before, favourite, scores."""
    rows = [
        row for seed in range(len(subjects.favourites)) for row in _rows(subjects, scores, seed)
    ]
    return pa.Table.from_pylist(rows, CAPTIONS)


def example_table(
    subjects: Subjects, scores: Mapping[str, Floats], *, seed: int
) -> pa.Table | None:
    """Return the rows of twelve images with favourites of the first seed, and the images as PNG.

    The images are drawn at random. None where the data have no images.
    """
    n = len(subjects.before)
    places = np.sort(np.random.default_rng(seed).permutation(n)[:SHOWN]).tolist()
    images = [subjects.pictures[i].image for i in places]
    if any(image is None for image in images):
        return None
    rows = _rows(subjects, scores, 0)
    shown = [rows[i] | {"image": _png(image)} for i, image in zip(places, images, strict=True)]
    return pa.Table.from_pylist(shown, EXAMPLES)


def _rows(subjects: Subjects, scores: Mapping[str, Floats], seed: int) -> list[dict[str, Any]]:
    texts = {kind: _of_seed(seeds, seed) for kind, seeds in subjects.kinds.items()}
    numbers = {f"{kind}_score": _of_seed(scores[kind], seed) for kind in texts}
    ids, digests, *_ = subjects.examples
    return [
        {"id": ids[i], "digest": digests[i], "seed": seed}
        | {kind: of_images[i] for kind, of_images in texts.items()}
        | {name: float(of_images[i]) for name, of_images in numbers.items()}
        for i in range(len(ids))
    ]


def _of_seed(seeds: Sequence[Any] | Floats, seed: int) -> Any:
    return seeds[seed if len(seeds) > 1 else 0]


def _png(image: PIL.Image.Image) -> bytes:
    small = image.copy()
    small.thumbnail((SIDE, SIDE))
    content = BytesIO()
    small.save(content, "PNG")
    return content.getvalue()
