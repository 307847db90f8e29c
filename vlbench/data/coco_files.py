"""The files of COCO: instances_*.json and captions_*.json, image by image."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.errors import DataError

Record = dict[str, Any]


class Thing(NamedTuple):
    """A ground truth box (xyxy pixels) and its category."""

    box: list[float]
    category: str


class AnnotatedImage(NamedTuple):
    """An image, its things, and its captions ordered by annotation id."""

    number: int
    file: str
    size: list[int]
    things: list[Thing]
    captions: list[str]


class Instances(NamedTuple):
    """An instances file: categories by id in the file's order, images by id, things by image id."""

    file: Path
    categories: dict[int, str]
    images: dict[int, Record]
    things: Mapping[int, list[Record]]


def read_instances(file: Path) -> Instances:
    """Return the content of an instances file. Raises DataError where it is not complete."""
    with _naming_file(file):
        content = _read(file)
        categories = {int(c["id"]): str(c["name"]) for c in content["categories"]}
        images = {int(image["id"]): image for image in content["images"]}
        return Instances(file, categories, images, _by_image(content["annotations"]))


def annotated_images(instances: Instances, texts: Path) -> Iterator[AnnotatedImage]:
    """Yield each image with its annotations, ordered by image id.

    Crowds and boxes without area are left out; other boxes are cut to the image. Raises DataError
    for an incomplete file and for an image without captions.
    """
    with _naming_file(texts):
        captions = _by_image(_read(texts)["annotations"])
    for number, image in sorted(instances.images.items()):
        with _naming_file(instances.file):
            size = [int(image["width"]), int(image["height"])]
            things = [_thing(t, size, instances) for t in instances.things.get(number, [])]
        with _naming_file(texts):
            own = [str(caption["caption"]) for caption in captions.get(number, [])]
        if not own:
            raise DataError(f"{texts.name} has no caption of image {number}")
        boxed = [thing for thing in things if thing is not None]
        yield AnnotatedImage(number, str(image["file_name"]), size, boxed, own)


@contextmanager
def _naming_file(file: Path) -> Iterator[None]:
    """Turn errors from missing or wrong content into a DataError that names the file."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        kind = type(error).__name__
        raise DataError(f"{file.name} is not COCO's, or not whole ({kind}: {error})") from error


def _read(file: Path) -> Any:
    """Return the content of a file without the outlines, which are most of it."""
    return json.loads(file.read_bytes(), object_hook=_without_outline)


def _without_outline(record: Record) -> Record:
    record.pop("segmentation", None)
    return record


def _by_image(annotations: list[Record]) -> Mapping[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for annotation in sorted(annotations, key=lambda annotation: int(annotation["id"])):
        found.setdefault(int(annotation["image_id"]), []).append(annotation)
    return found


def _thing(record: Record, size: list[int], instances: Instances) -> Thing | None:
    """Return a thing with its box cut to the image; None for a crowd or a box without area."""
    x, y, width, height = record["bbox"]
    corners = zip((x, y, x + width, y + height), (*size, *size), strict=True)
    box = [float(min(max(value, 0), limit)) for value, limit in corners]
    category = instances.categories[int(record["category_id"])]
    is_one = not record["iscrowd"] and box[0] < box[2] and box[1] < box[3]
    return Thing(box, category) if is_one else None
