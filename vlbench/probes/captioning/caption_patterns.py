"""What captions does a matching model like? arXiv:2210.09550, sections 3 and 4, tables 2, 4 and 5.

A captioner is trained on captions, then on a model's matching score; the captions that it then
gives test images are the model's *favourites*, one set per seed. `prefers_reference` is the share
of images whose first reference outscores the favourite: it does not depend on the scale of scores,
a model that scores all alike gets one half, and one that can be led away from human captions is
seen to be. Its controls are the same texts for another test image, and a trigram model of the
training captions in the model's place. Departures: favourites of several seeds count, and beside
the paper's patterns stand those found in favourites of other images.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import PIL.Image
import pyarrow as pa

from vlbench.capabilities import ImageEncoder, ImageTextScorer, count_truncated
from vlbench.data.records import Data
from vlbench.drawing.sheets import png
from vlbench.engine import Engine
from vlbench.metrics.captions import CAPTION_METRICS
from vlbench.metrics.statistics import Floats, student_interval
from vlbench.probes.captioning.caption_metrics import matching_part, score_kind, telling_part
from vlbench.probes.captioning.caption_scores import BEFORE, FAVOURITES, REFERENCE
from vlbench.probes.captioning.caption_sets import TEST_IMAGES, Images, Plan, Subjects, collect
from vlbench.probes.captioning.caption_statistics import available_metrics
from vlbench.probes.captioning.captioner import Captioner, Favourites
from vlbench.probes.captioning.controls import TextScorer
from vlbench.probes.captioning.estimates import joined
from vlbench.probes.captioning.nouns import TAGGED_CAPTIONS, NounSource, find_nouns
from vlbench.probes.captioning.pattern_scores import pattern_part, unigram_table
from vlbench.probes.captioning.scoring import PairScorer
from vlbench.results import Outcome, Score

SCHEMA = pa.schema(
    [
        ("seed", pa.int32()),
        *(
            (name, pa.float64())
            for name in ("steps", "sampled_score", "greedy_score", "share_with_advantage")
        ),
    ]
)


def training_part(trained: Sequence[Favourites]) -> Outcome:
    """Return the share of sampled captions with an advantage that is not zero.

    A saturated model gives most samples none. With several seeds, the interval is Student's t.
    """
    draws = [one.share_nonzero_advantage for one in trained]
    seeds, value = len(draws), float(np.mean(draws))
    stderr, interval = None, None
    if seeds > 1:
        stderr = float(np.std(draws, ddof=1)) / math.sqrt(seeds)
        interval = (value, value)
        if stderr:
            low, high = student_interval(value, [stderr**2], [seeds])
            interval = (max(low, 0.0), min(high, 1.0))
    score = Score(
        metric="nonzero_advantages",
        value=value,
        n=seeds,
        stderr=stderr,
        ci95=interval,
        draws=draws if seeds > 1 else [],
    )
    return Outcome([score], counts={"scored_in_training": sum(one.scored for one in trained)})


def history_table(trained: Sequence[Favourites]) -> pa.Table:
    """Return the mean scores of sampled and greedy captions by seed and steps."""
    rows = [{"seed": seed, **entry} for seed, one in enumerate(trained) for entry in one.history]
    return pa.Table.from_pylist(rows, SCHEMA)


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
    return png(small)


def caption_patterns(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageTextScorer,
    data: Data,
    engine: Engine,
    *,
    captioner: Captioner,
    encoders: list[ImageEncoder],
    images: Images = TEST_IMAGES,
    seeds: int = 3,
    seed: int = 0,
    nouns: NounSource = TAGGED_CAPTIONS,
    metrics: Sequence[str] = CAPTION_METRICS,
) -> Outcome:
    """Return what a model's favourite captions are like, and whether it prefers them to humans'.

    `images` are captioned. `encoders` are those that the captioner sees
    images through, never the model. `seeds` are so many trainings on the model's score, from `seed`
    on. Raises TooFewRows for fewer than two images.
    """
    plan = Plan(captioner, encoders, images, seeds, seed)
    # What may not be here is asked for before hours of training.
    found, (names, notes) = find_nouns(data, engine, nouns), available_metrics(metrics)
    subjects, trained = collect(model, data, engine, plan)
    text = TextScorer(data.splits["train"])
    scorer = PairScorer(model, subjects.rows, engine)
    matched, scores = matching_part(scorer, subjects, text, score_kind(model), seed=seed)
    tagged = {kind: [found.tagged(of) for of in seeds] for kind, seeds in subjects.kinds.items()}
    texts = [text for seeds in subjects.kinds.values() for captions in seeds for text in captions]
    return joined(
        [
            matched,
            training_part(trained),
            telling_part(subjects, found, text, names, engine),
            pattern_part(tagged, subjects.examples, seed=seed),
            Outcome([], counts=count_truncated(model, texts), notes=notes),
        ],
        {
            "captions": caption_table(subjects, scores),
            "unigrams": unigram_table({kind: chain(*seeds) for kind, seeds in tagged.items()}),
            "examples": example_table(subjects, scores, seed=seed),
            "history": history_table(trained),
        },
    )
