"""COCO's files: instances_*.json and captions_*.json, image by image."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.errors import DataError

Record = dict[str, Any]


class Thing(NamedTuple):
    """A gold box (xyxy pixels) and its category."""

    box: list[float]
    category: str


class Annotated(NamedTuple):
    """An image, its things, and its captions ordered by annotation id."""

    number: int
    file: str
    size: list[int]
    things: list[Thing]
    captions: list[str]


class Instances(NamedTuple):
    """A file of objects: the categories by id in the file's order, images and objects by image."""

    file: Path
    categories: dict[int, str]
    images: dict[int, Record]
    things: Mapping[int, list[Record]]


def read_instances(file: Path) -> Instances:
    """Return what a file says of objects. Raises DataError where it is not whole."""
    with _whole(file):
        content = _read(file)
        categories = {int(c["id"]): str(c["name"]) for c in content["categories"]}
        images = {int(image["id"]): image for image in content["images"]}
        return Instances(file, categories, images, _by_image(content["annotations"]))


def annotated(instances: Instances, texts: Path) -> Iterator[Annotated]:
    """Yield what is said of each image, ordered by its number.

    A crowd is left out, and so is a box of no area; others are cut to the image. Raises DataError
    for a file that is not whole, and an image without captions.
    """
    with _whole(texts):
        captions = _by_image(_read(texts)["annotations"])
    for number, image in sorted(instances.images.items()):
        with _whole(instances.file):
            size = [int(image["width"]), int(image["height"])]
            things = [_thing(t, size, instances) for t in instances.things.get(number, [])]
        with _whole(texts):
            said = [str(caption["caption"]) for caption in captions.get(number, [])]
        if not said:
            raise DataError(f"{texts.name} has no caption of image {number}")
        kept = [thing for thing in things if thing is not None]
        yield Annotated(number, str(image["file_name"]), size, kept, said)


@contextmanager
def _whole(file: Path) -> Iterator[None]:
    """Have what is missing in a file raise DataError with its name."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        kind = type(error).__name__
        raise DataError(f"{file.name} is not COCO's, or not whole ({kind}: {error})") from error


def _read(file: Path) -> Any:
    """Return what a file holds but outlines, which are most of it."""
    return json.loads(file.read_bytes(), object_hook=_lean)


def _lean(record: Record) -> Record:
    record.pop("segmentation", None)
    return record


def _by_image(annotations: list[Record]) -> Mapping[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for annotation in sorted(annotations, key=lambda annotation: int(annotation["id"])):
        found.setdefault(int(annotation["image_id"]), []).append(annotation)
    return found


def _thing(record: Record, size: list[int], instances: Instances) -> Thing | None:
    """Return a thing, cut to the image; None for a crowd and for what has no area."""
    x, y, width, height = record["bbox"]
    corners = zip((x, y, x + width, y + height), (*size, *size), strict=True)
    box = [float(min(max(value, 0), limit)) for value, limit in corners]
    category = instances.categories[int(record["category_id"])]
    is_one = not record["iscrowd"] and box[0] < box[2] and box[1] < box[3]
    return Thing(box, category) if is_one else None
