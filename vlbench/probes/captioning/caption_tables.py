"""Tables stored with a row of `caption_patterns` or `caption_cross`: words, training, captions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa

from vlbench.drawing.sheets import png
from vlbench.metrics.intervals import Floats
from vlbench.probes.captioning.caption_sets import Subjects
from vlbench.probes.captioning.captioner import Favourites
from vlbench.probes.captioning.kinds import BEFORE, FAVOURITES, REFERENCE
from vlbench.probes.captioning.nouns import (
    Tagged,
    without_punctuation,
)

# Most words of each kind of captions.
MOST_WORDS = 10

TEXT = pa.string()

UNIGRAMS = pa.schema(
    {"captions": TEXT, "rank": pa.int32(), "word": TEXT, "part_of_speech": TEXT}
    | {"count": pa.int64(), "share": pa.float64()}
)

MEANS = ("steps", "sampled_score", "greedy_score", "share_with_advantage")

HISTORY = pa.schema({"seed": pa.int32(), **dict.fromkeys(MEANS, pa.float64())})

# Number of images shown, and their longer side in pixels.
SHOWN, SIDE = 12, 192

_TEXTS = (REFERENCE, BEFORE, FAVOURITES)

CAPTIONS = pa.schema(
    {"id": TEXT, "digest": TEXT, "seed": pa.int32()}
    | dict.fromkeys(_TEXTS, TEXT)
    | {f"{kind}_score": pa.float64() for kind in _TEXTS}
)

EXAMPLES = CAPTIONS.append(pa.field("image", pa.binary()))


def unigram_table(captions: Mapping[str, Iterable[Tagged]]) -> pa.Table:
    """Return the ten most frequent words of each kind of captions, without punctuation."""
    rows = [row for kind, tagged in captions.items() for row in _word_rows(kind, tagged)]
    return pa.Table.from_pylist(rows, UNIGRAMS)


def _word_rows(kind: str, captions: Iterable[Tagged]) -> list[dict[str, Any]]:
    """Return the rows of a kind; equally frequent words are in alphabetical order."""
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in chain(*map(without_punctuation, captions)):
        tags[word][tag] += 1
    counts = {word: counter.total() for word, counter in tags.items()}
    first = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS]
    total = sum(counts.values())
    return [
        {"captions": kind, "rank": rank, "word": word, "count": count, "share": count / total}
        | {"part_of_speech": min(tags[word].items(), key=lambda item: (-item[1], item[0]))[0]}
        for rank, (word, count) in enumerate(first, 1)
    ]


def history_table(trained: Sequence[Favourites]) -> pa.Table:
    """Return the mean scores of sampled and greedy captions by seed and steps."""
    rows = [{"seed": seed, **entry} for seed, run in enumerate(trained) for entry in run.history]
    return pa.Table.from_pylist(rows, HISTORY)


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

    The images are drawn at random. None if the data have no images.
    """
    n = len(subjects.before)
    places = np.sort(np.random.default_rng(seed).permutation(n)[:SHOWN]).tolist()
    images = [subjects.pictures[i].image for i in places]
    if any(image is None for image in images):
        return None
    rows = _rows(subjects, scores, 0)
    examples = [rows[i] | {"image": _png(image)} for i, image in zip(places, images, strict=True)]
    return pa.Table.from_pylist(examples, EXAMPLES)


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
    return png(small)
