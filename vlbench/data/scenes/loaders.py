"""Loaders of the drawn world: `objects`, `scenes`, and pairs of them as foils and twins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL.Image import Resampling

from vlbench.capabilities import Picture, Regions
from vlbench.data.coco_files import Arc, Named, phrases_of
from vlbench.data.crops import crop_box
from vlbench.data.images import decode_image
from vlbench.data.records import LISTED, Column, Data, Split, value_column
from vlbench.data.scenes.pair_questions import pair_question
from vlbench.data.scenes.pairs import ScenePair, count_pairs, pair
from vlbench.data.scenes.rows import PAIRED, SEEN, object_noun, places, row
from vlbench.data.scenes.storage import open_rows, write_once
from vlbench.data.scenes.table import world_table
from vlbench.data.scenes.world import (
    CATEGORIES,
    CATEGORY,
    CROPS,
    NOUNS,
    ORACLE,
    SEEN_CATEGORIES,
    SEEN_NOUNS,
    SIDE,
)
from vlbench.data.tables import Table, column_from

# The stored columns of proposals, by region kind: boxes, the source of their vectors, confidences
# and labels.
PROPOSALS = {
    CROPS: ("proposal_boxes", "image", "proposal_scores", "proposal_labels"),
    ORACLE: ("proposal_boxes", "proposal_vectors", "proposal_scores", "proposal_labels"),
}

# The columns of pairs that models read.
SEEN_OF_PAIRS = ("image", "regions", "picture")

# The side of a crop, in pixels.
CROP_SIDE = 16

# The things that images show: of all categories, or only of categories that are not held out.
ALL = "all"
THINGS = (ALL, "seen")


def objects(
    *, seed: int = 0, fine: bool = False, things: str = ALL, cache_dir: Path | None = None
) -> Data:
    """Return 3,000 images of one thing; the label is its category of 12, or its noun of 40.

    `categories` gives the category of each noun; with `things: seen` there are 8 categories and 28
    nouns. The other columns and `cache_dir` are the same as in `scenes`.

    Args:
        seed: seed that draws the scenes.
        fine: whether classes are the nouns; else they are the categories.
        things: `all`, or `seen`: no image shows a thing of a held-out category.
    """
    configuration = _configuration("objects", things)
    every, seen = (NOUNS, SEEN_NOUNS) if fine else (CATEGORIES, SEEN_CATEGORIES)
    classes = every if things == ALL else seen

    def split(name: str) -> Split:
        table = world_table(configuration, name, seed, cache_dir)
        nouns = [object_noun(configuration, i) for i in places(configuration)[name]]
        labels = [classes.index(noun if fine else CATEGORY[noun]) for noun in nouns]
        key = table.digests["noun" if fine else "label"]
        label = Column(key, "value", labels, range(len(labels)))
        return Split(_columns(table) | {"label": label})

    categories = [CATEGORY[noun] for noun in classes] if fine else ()
    splits = {name: split(name) for name in places(configuration)}
    return Data(splits=splits, classes=classes, categories=categories, class_order=LISTED)


def scenes(
    *,
    seed: int = 0,
    regions: str | None = None,
    things: str = ALL,
    cache_dir: Path | None = None,
) -> Data:
    """Return 6,000 images of 1 to 4 things.

    With `things: seen` captions do not name things of held-out categories either. Each image that
    shows or names such a thing is replaced by another image with as many things, so the size of
    splits is the same. Questions may still ask whether such a thing is there, and labels of
    proposals may be wrong.

    The images of a split are drawn when its first value is read, and stored in `cache_dir` (None:
    the default cache folder). The vectors of scenes-crops are the pixels of each box, resized to 16
    x 16 x RGB: 768 whole numbers of 0..255. The vectors of scenes-oracle are codes of 64 numbers
    that use no pixels: noise, plus a random direction for each attribute of the box's content, like
    the output of a detector that knows everything.

    `boxes` are ground truth, float32 [n, 4] xyxy pixels, tight around the visible parts, from back
    to front, as are `categories`, `nouns`, `colours`, `sizes`, `textures`, `facings` and `angles`
    (degrees clockwise). `words`, `tags`, `arcs` and `phrases` have one list per caption of the five
    `captions`; `caption` is the first, which names everything; `named` has one `Named` per
    category, with its place in `caption`. `answers` has one answer per question of the five
    `questions`.

    Args:
        seed: seed that draws the scenes.
        regions: kind of the proposals' vectors: `scenes-crops` or `scenes-oracle`; None:
            `scenes-crops`.
        things: `all`, or `seen`: no image shows a thing of a held-out category.
    """
    kind = _region_kind(regions)
    configuration = _configuration("scenes", things)
    splits = {
        name: Split(_columns(world_table(configuration, name, seed, cache_dir), kind))
        for name in places(configuration)
    }
    classes = CATEGORIES if things == ALL else SEEN_CATEGORIES
    return Data(splits=splits, classes=classes, class_order=LISTED)


def foils(*, seed: int = 0, regions: str | None = None, cache_dir: Path | None = None) -> Data:
    """Return 3,500 images with a right and a wrong caption each, 500 of each of 7 categories.

    The two images of a pair have the same two captions, with right and wrong exchanged, so a model
    that ignores images is right in exactly half of them. `cluster` is the pair, and `words` lists
    the words that are true of an image. The train split has the captions of 700 other pairs,
    without images, for language models. `cache_dir` is the same as in `scenes`.

    Args:
        seed: seed that draws the scenes.
        regions: kind of the proposals' vectors: `scenes-crops` or `scenes-oracle`; None:
            `scenes-crops`.
    """
    pairs = _pairs(seed, "test")
    sides = [side for _, both in pairs for side in both]
    table = world_table(PAIRED, "test", seed, cache_dir)
    split = {name: _columns(table, _region_kind(regions))[name] for name in SEEN_OF_PAIRS}
    split["caption"] = value_column([side.caption for side in sides], "text")
    wrong = [[other.caption] for _, (a, b) in pairs for other in (b, a)]
    split["foils"] = value_column(wrong)
    split["category"] = value_column([category for category, both in pairs for _ in both])
    split["cluster"] = value_column([str(i // 2) for i in range(len(sides))])
    split["words"] = value_column([sorted(side.words) for side in sides])
    read = [[side.caption for side in both] for _, both in _pairs(seed, "train")]
    return Data(splits={"train": Split({"captions": value_column(read)}), "test": Split(split)})


def foils_and_phrases(
    *, seed: int = 0, regions: str | None = None, cache_dir: Path | None = None
) -> Data:
    """Return the rows of `foils`, and as a split `phrases` the validation rows of `scenes`.

    These are 550 other images, of `things: seen`, with phrases and boxes. `cache_dir` is the same
    as in `scenes`.

    Args:
        seed: seed that draws the scenes.
        regions: kind of the proposals' vectors: `scenes-crops` or `scenes-oracle`; None:
            `scenes-crops`.
    """
    rows = foils(seed=seed, regions=regions, cache_dir=cache_dir)
    others = scenes(seed=seed, regions=regions, things="seen", cache_dir=cache_dir)
    return Data(splits={**rows.splits, "phrases": others.splits["val"]})


def twins(*, seed: int = 0, regions: str | None = None, cache_dir: Path | None = None) -> Data:
    """Return the 1,750 pairs of `foils`, each a row of two images with their captions.

    `caption` is right for `image`, `caption_2` for `image_2`; `words` are true of `image`,
    `words_2` of `image_2`.

    Args:
        seed: seed that draws the scenes.
        regions: kind of the proposals' vectors: `scenes-crops` or `scenes-oracle`; None:
            `scenes-crops`.
    """
    data = foils(seed=seed, regions=regions, cache_dir=cache_dir)
    both = data.splits["test"]
    first, second = (both.select(range(side, len(both), 2)).columns for side in (0, 1))
    kept = (*SEEN_OF_PAIRS, "caption", "words")
    columns = {name: first[name] for name in (*kept, "category")}
    columns |= {f"{name}_2": second[name] for name in kept}
    return Data(splits={**data.splits, "test": Split(columns)})


def pair_questions(*, seed: int = 0, cache_dir: Path | None = None) -> Data:
    """Return 2,500 images of `foils` with a question of two options each, 500 of 5 categories.

    Both images of a pair have the same question and different answers, so a model that ignores
    images is right in exactly half of them. `cluster` is the pair. `cache_dir` is the same as in
    `scenes`.

    Args:
        seed: seed that draws the scenes.
    """
    pairs = [(number, pair_question(both)) for number, both in enumerate(_pairs(seed, "test"))]
    sides = [(number, question, side) for number, question in pairs if question for side in (0, 1)]
    columns = _columns(world_table(PAIRED, "test", seed, cache_dir))
    rows = [2 * number + side for number, _, side in sides]
    split = {name: columns[name].select(rows) for name in ("image", "picture")}
    split["question"] = value_column([question.text for _, question, _ in sides], "text")
    split["options"] = value_column([list(question.options) for _, question, _ in sides])
    split["right_answers"] = value_column([[question.right[side]] for _, question, side in sides])
    split["category"] = value_column([question.category for _, question, _ in sides])
    split["cluster"] = value_column([str(number) for number, _, _ in sides])
    return Data(splits={"test": Split(split)})


def _pairs(seed: int, split: str) -> list[ScenePair]:
    return [pair(seed, split, number) for number in range(count_pairs(split))]


def _region_kind(regions: str | None) -> str:
    kind = regions or CROPS
    if kind not in PROPOSALS:
        raise ValueError(f"scenes have regions of kind {', '.join(PROPOSALS)}, not {regions}")
    return kind


def drawn_rows(configuration: str, split: str, count: int, folder: Path) -> Split:
    """Return the first rows of a split of seed 0; only these are drawn, into a folder."""
    numbers = places(configuration)[split][:count]
    place = folder / f"{configuration}-{split}"
    digests = write_once(place, lambda: (row(configuration, 0, i) for i in numbers))
    return Split(_columns(Table(partial(open_rows, place), len(numbers), digests)))


def _configuration(name: str, things: str) -> str:
    if things not in THINGS:
        raise ValueError(f"{name} show things: {' or '.join(THINGS)}, not {things}")
    return name if things == ALL else name + SEEN


def _columns(table: Table, kind: str = CROPS) -> dict[str, Column]:
    """Return all columns except the label; the vectors of proposals are of this region kind."""
    column = partial(column_from, table)
    unchanged = (
        "categories", "nouns", "colours", "sizes", "textures", "facings", "angles",
        "captions", "words", "tags", "questions", "answers",
    )  # fmt: skip
    return {
        "image": replace(column(["image"], _image, "image"), key=table.digests["image"]),
        "boxes": column(["boxes"], torch.tensor),
        "regions": column(PROPOSALS[kind], _regions),
        "picture": column(["image", *PROPOSALS[kind]], _picture, "picture"),
        "caption": column(["captions"], itemgetter(0), "text"),
        "question": column(["questions"], itemgetter(0), "text"),
        "arcs": column(["arcs"], _arcs),
        "phrases": column(["phrases"], phrases_of),
        "named": column(["words", "phrases", "categories", "nouns"], _first_mentions),
        "background": column(["background"], str),
        **{name: column([name], list) for name in unchanged},
    }


def _image(encoded: bytes) -> Any:
    return decode_image(encoded, "an image of scenes")


def _regions(boxes: Any, seen: Any, scores: Any, labels: list[str]) -> Regions:
    """Return proposals; `seen` is the encoded image to crop, or the codes of the proposals."""
    vectors = _crops(_image(seen), boxes) if isinstance(seen, bytes) else torch.tensor(seen)
    return Regions(torch.tensor(boxes), vectors, torch.tensor(scores), labels, (SIDE, SIDE))


def _crops(image: Any, boxes: Sequence[Sequence[float]]) -> torch.Tensor:
    """Return the pixels of each box, float32 [R, 768] of whole numbers.

    Pillow resizes in whole numbers, so they are the same on every machine.
    """
    side = (CROP_SIDE, CROP_SIDE)
    cut = (crop_box(image, box).resize(side, Resampling.BILINEAR) for box in boxes)
    return torch.from_numpy(np.stack([np.asarray(crop) for crop in cut])).flatten(1).float()


def _picture(encoded: bytes, *proposals: Any) -> Picture:
    return Picture(_image(encoded), _regions(*proposals))


def _arcs(captions_: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[Arc]]:
    return [[Arc(**arc) for arc in arcs] for arcs in captions_]


def _first_mentions(
    words: Sequence[Sequence[str]],
    phrases: Sequence[Sequence[Mapping[str, Any]]],
    categories: Sequence[str],
    nouns: Sequence[str],
) -> list[Named]:
    """Return one `Named` per category: its first mention in the first caption, at the noun."""
    mentions: dict[str, Named] = {}
    for phrase in (p for p in phrases[0] if p["boxes"]):
        box, noun = phrase["boxes"][0], phrase["stop"] - 1
        start = len(" ".join([*words[0][:noun], ""]))
        name = Named(categories[box], nouns[box], start, start + len(words[0][noun]))
        mentions.setdefault(name.category, name)
    return list(mentions.values())
