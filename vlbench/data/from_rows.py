"""A split of anybody's data: images with labels, captions, questions and items of their own.

The loaders of tables, of the hub and of tar shards share it: the same rows are the same data. Rows
of one image, such as one row per caption, are one image with several texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.data.coco_files import first_repeated
from vlbench.data.images import images_at, labelled
from vlbench.data.names import plain_name
from vlbench.data.pictures import pictures
from vlbench.data.records import Column, Split, value_column
from vlbench.data.regions import region_features
from vlbench.errors import DataError, unknown

# What is said of an image, and the columns of its first text and of all of them.
SAID = {"caption": "captions", "question": "questions", "foil": "foils"}

# What an example has one of: the caption of a second image, and the names of what it belongs to.
NAMED = ("caption_2", "category", "cluster")

# A column, several, or none: an empty name.
Named = str | Sequence[str]


class Rows(NamedTuple):
    """What a source has for the images of a split; labels are None where it has none.

    `items` are texts or numbers; `texts` are the texts of each image, by what they are: `caption`,
    `question`, `foil`. `named` has one text of each example by its column, `more_images` the second
    image of each, the third, and so on.
    """

    images: Column
    labels: Sequence[int] | None = None
    items: Sequence[Any] = ()
    texts: Mapping[str, Sequence[Sequence[str]]] = {}
    named: Mapping[str, Sequence[str]] = {}
    more_images: Sequence[Column] = ()


def columns_of(named: Mapping[str, Named]) -> dict[str, list[str]]:
    """Return the columns that are wanted, by what they are: `{image: [img], caption: [a, b]}`.

    Names are in their normal form. Raises DataError for one with a control character.
    """
    several = {kind: [one] if isinstance(one, str) else one for kind, one in named.items()}
    wanted = {
        kind: [plain_name(name, f"the column of the {kind}") for name in names if name]
        for kind, names in several.items()
    }
    return {kind: names for kind, names in wanted.items() if names}


def lacks_column(column: str, known: Iterable[str]) -> str:
    """Return that a table lacks a column, those that it has, and what needs no labels."""
    hint = '; `label: ""` reads no labels' if column == "label" else ""
    return f"{unknown('column', column, known)}{hint}"


def said_in(
    columns: Mapping[str, Sequence[Sequence[Any]]], where: Callable[[int], str]
) -> dict[str, list[list[str]]]:
    """Return the texts of each image, by what they are, in columns of texts or of lists of texts.

    Blank texts are left out. Raises DataError, naming the row by `where`, for an image without any,
    and for what is no text.
    """
    return {
        kind: [_texts(cells, where(row), kind) for row, cells in enumerate(zip(*own, strict=True))]
        for kind, own in columns.items()
        if kind in SAID
    }


def named_in(
    columns: Mapping[str, Sequence[Sequence[Any]]], where: Callable[[int], str]
) -> dict[str, list[str]]:
    """Return what each example has one of, by its column; numbers as texts.

    Raises DataError, naming the row by `where`, for what is neither, and for a blank.
    """
    names = {}
    for kind in [kind for kind in NAMED if kind in columns]:
        (values,) = columns[kind]
        for row, value in enumerate(values):
            if type(value) not in (str, int) or not str(value).strip():
                raise DataError(f"{where(row)}: the {kind} is {value!r:.40}, no text")
        names[kind] = [str(value) for value in values]
        if kind != "caption_2":
            names[kind] = [plain_name(name, f"the {kind}") for name in names[kind]]
    return names


def _texts(values: Sequence[Any], where: str, what: str) -> list[str]:
    cells = [one for value in values for one in (value if isinstance(value, list) else [value])]
    wrong = [one for one in cells if one is not None and not isinstance(one, str)]
    if wrong:
        raise DataError(f"{where}: the {what} is {wrong[0]!r:.40}, no text")
    texts = [one for one in cells if one and one.strip()]
    if not texts:
        raise DataError(f"{where} has no {what}")
    return texts


def split_from_rows(rows: Rows, *, classes: int, where: str, regions: Path | None = None) -> Split:
    """Return the columns of a split, among them `picture` where images have texts or regions.

    Regions are those of the images' items, or of their names (see `vlbench.data.pictures`), never
    of the numbers of rows. Raises DataError, naming `where`, for labels that fit neither images nor
    classes, for an item that is absent or belongs to two examples, and for an image without a name
    or without regions.
    """
    rows = _by_image(rows._replace(images=_with_items(rows, where)))
    images = rows.images
    _refuse_repeated(rows, where)
    columns = {"image": images}
    if rows.labels is not None:
        columns |= labelled(images, rows.labels, classes=classes, where=where).columns
    for kind, texts in rows.texts.items():
        columns[kind] = value_column([first for first, *_ in texts], "text")
        columns[SAID[kind]] = value_column([[*several] for several in texts])
    for kind, named in rows.named.items():
        columns[kind] = value_column(named, "text" if kind == "caption_2" else "value")
    if regions and not images.names:
        raise DataError(
            f"{where}: the images have no names by which their regions could be found; name the "
            "column that has them as `item`"
        )
    if rows.texts or regions:
        columns |= _pictures([images, *rows.more_images], regions)
    return Split(columns)


def _with_items(rows: Rows, where: str) -> Column:
    """Return the images of rows, named by their items. Raises DataError for a row without one."""
    if not rows.items:
        return rows.images
    if None in rows.items:
        raise DataError(f"{where}, row {rows.items.index(None) + 1}: there is no item")
    return replace(rows.images, names=[str(item) for item in rows.items])


def _refuse_repeated(rows: Rows, where: str) -> None:
    """Raise DataError for an item that two examples have."""
    if rows.items and (twice := first_repeated(rows.images.names)) is not None:
        raise DataError(f"{where}: two rows have the item {twice!r}, and they are not of one image")


def _by_image(rows: Rows) -> Rows:
    """Return rows of one image as one, with the texts of all, in the order of the first of each.

    One image is the same content under the same name, with the same label. Rows that have wrong
    captions or second images ask something of their own, and stay as they are; so do labelled rows
    without names, which may be several examples.
    """
    images = rows.images
    asks = "foil" in rows.texts or bool(rows.more_images)
    nameless = rows.labels is not None and not images.names
    if not rows.texts or asks or nameless or not images.digests:
        return rows
    groups: dict[tuple[Any, ...], list[int]] = {}
    ones = [images.digests, images.names, rows.labels, *rows.named.values()]
    for row, key in enumerate(zip(*filter(None, ones), strict=True)):
        groups.setdefault(key, []).append(row)
    if len(groups) == len(images):
        return rows
    same, firsts = list(groups.values()), [own[0] for own in groups.values()]
    return Rows(
        images_at(images, firsts),
        None if rows.labels is None else [rows.labels[row] for row in firsts],
        [rows.items[row] for row in firsts] if rows.items else (),
        {
            kind: [[*chain(*(texts[row] for row in own))] for own in same]
            for kind, texts in rows.texts.items()
        },
        {kind: [values[row] for row in firsts] for kind, values in rows.named.items()},
    )


def _pictures(images: Sequence[Column], regions: Path | None) -> dict[str, Column]:
    """Return `picture`, `picture_2` and so on of the images of rows, and what they are made of."""
    features = region_features(regions) if regions else None
    columns: dict[str, Column] = {}
    for number, one in enumerate(images, 1):
        shown = pictures(one, one.names or one.examples().ids, features)
        end = "" if number == 1 else f"_{number}"
        columns |= {f"{kind}{end}": column for kind, column in shown.items()}
    return columns
