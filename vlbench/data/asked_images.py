"""Images with human questions about them: columns shared by the loaders of VQG and VQA."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from vlbench.data.images import file_images
from vlbench.data.pictures import pictures
from vlbench.data.records import Column, Data, Split
from vlbench.data.regions import image_number, region_features
from vlbench.data.tables import column_from, in_memory
from vlbench.errors import DataAbsent, DataError, counted

COCO_HOME = "cocodataset.org/#download"
NO_QUESTION = "none"

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "questions": pa.list_(pa.string()),
        "ratings": pa.list_(pa.int32()),
        "captions": pa.list_(pa.string()),
    }
)


class AskedImage(NamedTuple):
    """An image's id, its questions, a rating per question (None: not rated), and its captions."""

    id: str
    questions: list[str]
    ratings: list[int | None]
    captions: list[str]


class Sources(NamedTuple):
    """The sources of a split's images: COCO's folder, the parts of COCO, and region features.

    If COCO's folder is None, a split has no images; with region features, images may be absent.
    """

    coco: Path | None
    parts: Sequence[str]
    features: Path | None


def asked_data(
    rows: Mapping[str, Iterable[AskedImage]],
    sources: Mapping[str, Sources],
    expected: Mapping[str, int],
) -> Data:
    """Return a split per name, from its images and sources, as `asked_split` does.

    Counts the images that have no question, the unrated images of splits with ratings, and the
    images that two splits share.
    """
    splits, dropped, notes = {}, Counter[str](), []
    for name, images in rows.items():
        read = list(images)
        splits[name] = asked_split(read, sources[name])
        dropped["images without a question"] += sum(not image.questions for image in read)
        unrated = sum(bool(image.questions) and not _is_rated(image) for image in read)
        if "ratings" in splits[name].columns and unrated:
            notes.append(f"not rated: the questions of {counted(unrated, 'image')} of {name}")
    ids = {name: {*split["id"]} for name, split in splits.items()}
    for first, second in combinations(ids, 2):
        if shared := len(ids[first] & ids[second]):
            notes.append(f"both in {first} and in {second}: {counted(shared, 'image')}")
    return Data(splits=splits, expected=expected, dropped=+dropped, notes=notes)


def asked_split(rows: Iterable[AskedImage], sources: Sources) -> Split:
    """Return one row per image that has a question.

    Columns: `id`, `questions` and `question` (the first); if the source has them, `ratings`
    (one per question, None if a question is not rated), `captions` and `caption` (the first),
    `image`, `regions` and `picture`. Raises DataError if an image's file or regions are missing.
    """
    kept = [row for row in rows if row.questions]
    table = in_memory((row._asdict() for row in kept), SCHEMA)
    ids = [row.id for row in kept]

    def column(names: Sequence[str], make: Callable[..., Any], kind: str = "value") -> Column:
        return replace(column_from(table, names, make, kind), names=ids)

    columns: dict[str, Column] = {
        "id": column(["id"], str),
        "questions": column(["questions"], list),
        "question": column(["questions"], itemgetter(0), "text"),
    }
    if any(map(_is_rated, kept)):
        columns["ratings"] = column(["ratings"], list)
    if any(row.captions for row in kept):
        columns["captions"] = column(["captions"], list)
        columns["caption"] = column(["captions"], itemgetter(0), "text")
    images = _images(sources, ids)
    features = region_features(sources.features, numbered=True) if sources.features else None
    if images or features is not None:
        columns |= pictures(images, ids, features, numbers=ids)
    return Split(columns)


def _is_rated(image: AskedImage) -> bool:
    return any(rating is not None for rating in image.ratings)


def captions_of(
    number: int, captions: Sequence[Mapping[int, Sequence[str]]], where: str
) -> list[str]:
    """Return an image's captions, without blank ones, from the first file that has the image.

    Raises DataError, naming the files by `where`, for an image that has no caption.
    """
    texts = next((file[number] for file in captions if number in file), ())
    kept = [caption for caption in texts if caption.strip()]
    if not kept:
        raise DataError(f"{where} has no caption of image {number}")
    return kept


def _images(sources: Sources, ids: Sequence[str]) -> Column | None:
    """Return the images by their COCO ids; None if folders are absent and not needed."""
    if sources.coco is None:
        return None
    folders = [sources.coco / part for part in sources.parts]
    if not any(folder.is_dir() for folder in folders):
        if sources.features is None:
            raise DataAbsent("COCO's images", COCO_HOME, str(folders[0]))
        return None
    places: dict[str, list[str]] = {}
    for folder in filter(Path.is_dir, folders):
        for file in sorted(folder.iterdir()):
            places.setdefault(image_number(file.name), []).append(f"{folder.name}/{file.name}")
    files = [places.get(name, [f"{sources.parts[0]}/{name}"]) for name in ids]
    for name, (first, *others) in zip(ids, files, strict=True):
        if others:
            raise DataError(f"image {name} has two files, {first} and {others[0]}; keep COCO's")
    names = [first for first, *_ in files]
    return file_images(sources.coco, names, listed="the questions")
