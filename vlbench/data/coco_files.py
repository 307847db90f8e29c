"""The files of COCO and VQA: boxes, captions and questions, image by image.

An id that occurs twice is an error, and so are boxes that are not finite or have a negative side.
The original files have boxes of height 0 (in images 200365 and 550395 of train2017, for example),
boxes that end beyond the image, and crowds. These are not errors: the loader counts the annotations
that it omits.
"""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.data.formats.archives import CHUNK
from vlbench.errors import DataError
from vlbench.system import files
from vlbench.system.files import MOST_ANNOTATIONS, read_bytes

# Ids in lists of data sets have no more digits, and fit into int32.
MOST_DIGITS = 9
Record = dict[str, Any]
# The longest side that JPEG allows.
MOST_PIXELS = 65_535
# Python's exceptions for JSON that is cut short, nested too deeply, or of other types.
MISFITS = (
    *(KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError),
    *(EOFError, zlib.error),
)
# The first bytes of a gzip file.
GZIP = b"\x1f\x8b"


class Arc(NamedTuple):
    """A Stanford dependency between two words of a caption; the root is never a dependent."""

    relation: str
    head: int
    dependent: int


class Phrase(NamedTuple):
    """Words start..stop of a caption (stop excluded) and the indices of the boxes they name."""

    start: int
    stop: int
    boxes: tuple[int, ...]


def phrases_of(captions: Sequence[Sequence[Record]]) -> list[list[Phrase]]:
    """Return the phrases of each caption from rows with their fields; other fields are ignored."""
    return [[Phrase(p["start"], p["stop"], tuple(p["boxes"])) for p in rows] for rows in captions]


class Named(NamedTuple):
    """A category and the characters start..end (end excluded) of a caption that name it.

    `word` is its fine-grained class, a noun in the singular: `man` for `Men` in COCO, `pine` for
    `pines` in scenes. The characters contain the caption's form of it.
    """

    category: str
    word: str
    start: int
    end: int


def read_text(path: Path, name: str = "", *, most: int = files.MOST_TEXT) -> str:
    """Return the text of a file in UTF-8, without a byte order mark at its start.

    Raises DataError with `name`, by default the file's.
    """
    label = name or path.name
    try:
        return files.read_text(path, most)
    except OSError as error:
        raise DataError(f"{label} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{label} is not UTF-8: byte {error.start}") from error


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a text, which end only in \n or \r\n; captions may contain other breaks.

    A line break at the end of the text begins no further line.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def sound_text(value: Any) -> str:
    """Return a text that UTF-8 can encode. Raises TypeError or ValueError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    value.encode("utf-8")
    return value


def is_number(text: str) -> bool:
    """Return whether a text is a whole number of at most nine digits."""
    return text.isdecimal() and len(text) <= MOST_DIGITS


def first_repeated(values: Iterable[object]) -> object | None:
    """Return the first value that occurs twice; None if all differ."""
    return next((value for value, count in Counter(values).items() if count > 1), None)


class Thing(NamedTuple):
    """A ground truth box (xyxy pixels) and its category."""

    box: list[float]
    category: str


class AnnotatedImage(NamedTuple):
    """An image, its things, and its captions ordered by annotation id.

    `left_out` is the number of its annotations that are not things: crowds and boxes without area.
    """

    number: int
    file: str
    size: list[int]
    things: list[Thing]
    captions: list[str]
    left_out: int = 0


class Instances(NamedTuple):
    """An instances file: categories by id in the file's order, images by id, things by image id."""

    file: Path
    categories: dict[int, str]
    images: dict[int, Record]
    things: Mapping[int, list[Record]]


def read_instances(file: Path) -> Instances:
    """Return the content of an instances file. Raises DataError if it is incomplete."""
    with naming_file(file):
        content = _read(file)
        categories = {i: str(c["name"]) for i, c in _by_id(content, "categories").items()}
        images = _by_id(content, "images")
        things = _by_image(content)
        boxes = [thing.get("bbox") for group in things.values() for thing in group]
        if boxes and all(box and max(box) <= 1 for box in boxes):
            raise ValueError(
                "no box is larger than one pixel: multiply fractions by width and height"
            )
        return Instances(file, categories, images, things)


def annotated_images(instances: Instances, texts: Path) -> Iterator[AnnotatedImage]:
    """Yield each image with its annotations, ordered by image id.

    Crowds and boxes without area are left out; other boxes are cut to the image. Raises DataError
    for an incomplete file and for an image without captions.
    """
    with naming_file(texts):
        captions = _by_image(_read(texts))
    for number, image in sorted(instances.images.items()):
        with naming_file(instances.file):
            size = [_side(image["width"]), _side(image["height"])]
            things = [_thing(t, size, instances) for t in instances.things.get(number, [])]
            file = sound_text(image["file_name"])
        with naming_file(texts):
            words = [sound_text(caption["caption"]) for caption in captions.get(number, [])]
        if not words:
            raise DataError(f"{texts.name} has no caption of image {number}")
        boxed = [thing for thing in things if thing is not None]
        yield AnnotatedImage(number, file, size, boxed, words, len(things) - len(boxed))


def read_captions(file: Path) -> Mapping[int, list[str]]:
    """Return the captions of each image, by its id.

    In captions_*.json captions are ordered by annotation id; in a results file (a list of objects
    with `image_id` and `caption`) they keep the file's order. Raises DataError.
    """
    with naming_file(file):
        content = _read(file)
        if isinstance(content, list):
            return _texts_by_image(content, "caption")
        return _texts_by_image(_sort_by_id(content, "annotations"), "caption")


def read_asked(file: Path) -> Mapping[int, list[str]]:
    """Return the questions about each image, by its id, ordered by question id. Raises DataError.

    The file is VQA's: JSON, plain or gzipped, with or without the official header.
    """
    with naming_file(file, "VQA"):
        ordered = _sort_by_id(_read(file), "questions", key="question_id")
        return _texts_by_image(ordered, "question")


@contextmanager
def naming_file(file: Path, whose: str = "COCO") -> Iterator[None]:
    """Turn errors from missing or wrong content into a DataError that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{file.name} cannot be read ({error.strerror})") from error
    except MISFITS as error:
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"{file.name} is not {whose}'s, or not whole ({why:.200})") from error


def _read(file: Path) -> Any:
    """Return the content of a file without the outlines, which are most of it."""
    content = read_bytes(file, MOST_ANNOTATIONS)
    if content.startswith(GZIP):
        content = _unpack(file)
    return json.loads(content, object_hook=_without_outline)


def _unpack(file: Path) -> bytes:
    """Return the content of a gzip file; memory use is limited to its real size."""
    parts, size = [], 0
    with gzip.open(file) as unpacked:
        while part := unpacked.read(CHUNK):
            size += len(part)
            if size > MOST_ANNOTATIONS:
                raise ValueError(f"it unpacks to more than {MOST_ANNOTATIONS} bytes")
            parts.append(part)
    return b"".join(parts)


def _without_outline(record: Record) -> Record:
    record.pop("segmentation", None)
    return record


def _by_id(content: Record, kind: str, key: str = "id") -> dict[int, Record]:
    """Return the records of a kind by id. Raises ValueError for an id that occurs twice."""
    ids = [_number(record[key]) for record in content[kind]]
    repeated = first_repeated(ids)
    if repeated is not None:
        raise ValueError(f"the id {repeated} occurs twice among its {kind}")
    return dict(zip(ids, content[kind], strict=True))


def _by_image(content: Record) -> Mapping[int, list[Record]]:
    records: dict[int, list[Record]] = {}
    for annotation in _sort_by_id(content, "annotations"):
        records.setdefault(_number(annotation["image_id"]), []).append(annotation)
    return records


def _sort_by_id(content: Record, kind: str, key: str = "id") -> list[Record]:
    """Return the records of a kind, ordered by their id."""
    return [record for _, record in sorted(_by_id(content, kind, key).items())]


def _texts_by_image(records: Sequence[Record], name: str) -> Mapping[int, list[str]]:
    captions: dict[int, list[str]] = {}
    for record in records:
        captions.setdefault(_number(record["image_id"]), []).append(sound_text(record[name]))
    return captions


def _thing(record: Record, size: Sequence[int], instances: Instances) -> Thing | None:
    """Return a thing with its box cut to the image; None for a crowd or a box without area.

    An error names the annotation.
    """
    try:
        box = _box(record["bbox"], size)
        category = instances.categories[_number(record["category_id"])]
        is_one = not _is_crowd(record.get("iscrowd", 0)) and box[0] < box[2] and box[1] < box[3]
    except MISFITS as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(f"annotation {record['id']}: {why}") from error
    return Thing(box, category) if is_one else None


def _box(sides: Sequence[Any], size: Sequence[int]) -> list[float]:
    """Return a box of x, y, width and height as xyxy pixels, cut to the image."""
    numbers = [float(side) for side in sides]
    if len(numbers) != 4 or not all(map(math.isfinite, numbers)) or min(numbers[2:]) < 0:
        raise ValueError(f"the box {sides} is not valid")
    x, y, width, height = numbers
    corners = zip((x, y, x + width, y + height), (*size, *size), strict=True)
    return [min(max(value, 0.0), float(limit)) for value, limit in corners]


def _is_crowd(value: Any) -> bool:
    """Return whether `iscrowd` is 1, as a number or a text; COCO-ReM and LVIS have no `iscrowd`."""
    if value not in (0, 1, "0", "1"):
        raise ValueError(f"iscrowd is {value!r:.40}, not 0 or 1")
    return int(value) == 1


def _number(value: Any) -> int:
    """Return an id as a whole number."""
    number = int(value)
    if number != value or abs(number) >= 10 ** (2 * MOST_DIGITS):
        raise ValueError(f"{value!r:.40} is not an id")
    return number


def _side(value: Any) -> int:
    if not 1 <= int(value) <= MOST_PIXELS:
        raise ValueError(f"an image side of {value!r:.40} pixels")
    return int(value)
