"""Images with a right caption and wrong captions (foils), and twins: two captioned images.

The loaders of SugarCrepe, ARO, What'sUp and Winoground share the reading of items and the columns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vlbench.data.coco_files import MISFITS, read_text, sound_text
from vlbench.data.names import normal_form
from vlbench.data.pictures import pictures
from vlbench.data.records import Column, Data, Split, value_column
from vlbench.errors import DataError
from vlbench.system.files import MOST_ANNOTATIONS, is_file_name

COCO_VAL2017 = "cocodataset.org/#download (val2017.zip)"
FOIL_IS_CAPTION = "items whose foil is the caption"

Item = TypeVar("Item")


class Foiled(NamedTuple):
    """The name of an image, its right caption, its wrong captions, and the item's category.

    `cluster` is shared by items that are not independent; its default is the image. `pair` is
    shared by the two items of a cluster whose captions are opposite.
    """

    image: str
    caption: str
    foils: list[str]
    category: str
    cluster: str = ""
    pair: str = ""


class Twins(NamedTuple):
    """The names of two images, the caption of each, and the item's category."""

    images: tuple[str, str]
    captions: tuple[str, str]
    category: str


def read_json_items(file: Path, parse: Callable[[Any], Item]) -> list[Item]:
    """Return the items of a JSON file, in its order, each made by `parse`.

    Errors name an item by its key in an object, or by its index in a list, from 0. Raises
    DataError with the file and the item.
    """
    content = _parse_item(file, "", json.loads, read_text(file, most=MOST_ANNOTATIONS))
    if not isinstance(content, list | dict):
        raise DataError(f"{file.name} contains neither a list nor an object; fetch it again")
    entries = content.items() if isinstance(content, dict) else enumerate(content)
    return _parse_items(file, ((f", item {key!r:.40}", entry) for key, entry in entries), parse)


def read_json_lines(file: Path, parse: Callable[[Any], Item]) -> list[Item]:
    """Return the items of a JSON Lines file, each made by `parse`.

    Raises DataError with the file and the line.
    """
    lines = read_text(file, most=MOST_ANNOTATIONS).split("\n")
    entries = ((f", line {i}", line) for i, line in enumerate(lines, 1) if line.strip())
    return _parse_items(file, entries, lambda line: parse(json.loads(line)))


def require_text(value: Any) -> str:
    """Return a text. Raises TypeError for anything else, and ValueError for a blank text."""
    if not sound_text(value).strip():
        raise ValueError("a text is empty")
    return str(value)


def image_file(value: Any) -> str:
    """Return the name of a file in a folder. Raises TypeError or ValueError for anything else."""
    if not is_file_name(sound_text(value)):
        raise ValueError(f"{value!r:.40} is not the name of an image file")
    return str(value)


def foil_data(
    items: Sequence[Foiled], images: Callable[[Sequence[str]], Column], expected: int
) -> Data:
    """Return items as a test split, with the columns for choosing between captions.

    Columns: `image`, `picture`, `caption` (text), `foils` (list of texts), `category` and, if items
    have them, `cluster` and `pair`. `images` makes the column of distinct names. Items whose
    caption is among their foils are left out and counted.
    """
    kept = [item for item in items if normal_form(item.caption) not in map(normal_form, item.foils)]
    (columns,) = _image_columns(images, [item.image for item in kept])
    columns["caption"] = value_column([item.caption for item in kept], "text")
    columns["foils"] = value_column([item.foils for item in kept])
    columns["category"] = value_column([item.category for item in kept])
    for name in ("cluster", "pair"):
        if any(values := [getattr(item, name) for item in kept]):
            columns[name] = value_column(values)
    return _test_data(columns, expected, len(items) - len(kept))


def twin_data(
    items: Sequence[Twins], images: Callable[[Sequence[str]], Column], expected: int
) -> Data:
    """Return twins as a test split: columns as in `foil_data`, without `foils`, for two images.

    `caption` belongs to `image`, `caption_2` to `image_2`. Items with two equal captions are left
    out and counted.
    """
    kept = [item for item in items if len({*map(normal_form, item.captions)}) == 2]
    first, second = _image_columns(images, *([item.images[i] for item in kept] for i in (0, 1)))
    columns = {
        **first,
        "caption": value_column([item.captions[0] for item in kept], "text"),
        **{f"{name}_2": column for name, column in second.items()},
        "caption_2": value_column([item.captions[1] for item in kept], "text"),
        "category": value_column([item.category for item in kept]),
    }
    return _test_data(columns, expected, len(items) - len(kept))


def _image_columns(
    images: Callable[[Sequence[str]], Column], *names: Sequence[str]
) -> list[dict[str, Column]]:
    """Return `image` and `picture` for each list of names; all select from one stored column.

    Each image is stored once, so its features are computed once.
    """
    distinct = list(dict.fromkeys(name for group in names for name in group))
    place = {name: i for i, name in enumerate(distinct)}
    stored = pictures(images(distinct), distinct, None)
    rows = [[place[name] for name in group] for group in names]
    return [{name: column.select(places) for name, column in stored.items()} for places in rows]


def _test_data(columns: Mapping[str, Column], expected: int, dropped: int) -> Data:
    return Data(
        splits={"test": Split(columns)},
        expected={"test": expected},
        dropped=+Counter({FOIL_IS_CAPTION: dropped}),
    )


def _parse_items(
    file: Path, entries: Iterable[tuple[str, Any]], parse: Callable[[Any], Item]
) -> list[Item]:
    items = [_parse_item(file, place, parse, entry) for place, entry in entries]
    if not items:
        raise DataError(f"{file.name} has no item; fetch it again")
    return items


def _parse_item(file: Path, place: str, parse: Callable[[Any], Item], entry: Any) -> Item:
    """Return the item of an entry. Raises DataError with the file and the place of the entry."""
    try:
        return parse(entry)
    except KeyError as error:
        raise DataError(f"{file.name}{place} has no {error}; fetch it again") from error
    except MISFITS as error:
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"{file.name}{place} does not fit ({why:.200}); fetch it again") from error
