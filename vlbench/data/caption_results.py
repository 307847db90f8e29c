"""Captions in COCO's result format: a JSON list of {image_id, caption}, one entry per image."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vlbench.data.coco_files import MISFITS, first_repeated, read_text, sound_text
from vlbench.data.presence import require_files
from vlbench.data.records import Split
from vlbench.data.regions import image_name, image_names
from vlbench.errors import DataError

WANTED = '{"image_id": a number or a text, "caption": a text}'


def result_captions(file: Path, rows: Split) -> list[str]:
    """Return the caption of each row of a split, with each run of white space as one blank.

    Image ids are matched to the column `id`. If that column is missing, they are matched to whole
    names of images (see `image_name`), and for images without names to numbers of rows. Raises
    DataAbsent if the file is missing, and DataError if it is not a list of results, has two
    captions of an image, a caption of an unknown image, or no caption of an image.
    """
    what = f"the file of captions {file.name} (COCO's result format)"
    require_files(what, "the captioner that wrote them", file)
    images, stored, key_of = _image_ids(rows)
    captions = _read(file, key_of)
    unknown = next((image for image in captions if image not in stored), None)
    if unknown is not None:
        raise DataError(
            f"{file.name} has a caption of image {unknown}, which the data set does not contain"
        )
    lacking = [image for image in images if image not in captions]
    if lacking:
        missing = f"{len(lacking)} of {len(images)} images, {lacking[0]} first"
        raise DataError(f"{file.name} has no caption of {missing}")
    return [" ".join(captions[image].split()) for image in images]


def _image_ids(rows: Split) -> tuple[list[str], set[str], Callable[[str], str]]:
    """Return the ids of the rows, all stored ids, and a function that converts a file's ids."""
    if "id" in rows.columns:
        column = rows["id"]
        return [str(one) for one in column], {str(one) for one in column.stored}, str
    stored = rows["picture"]
    if stored.names:
        names = image_names(stored.names)
        return [names[row] for row in stored.rows], set(names), image_name
    return [str(row) for row in stored.rows], {str(i) for i in range(len(stored.stored))}, str


def _read(file: Path, key_of: Callable[[str], str]) -> dict[str, str]:
    """Return the captions by image id, converted by `key_of`."""
    try:
        content = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file.name} is not JSON ({error!s:.100})") from error
    if not isinstance(content, list):
        raise DataError(f"{file.name} is not a list; it must be [{WANTED}, ...]")
    entries = [_pair(file, i, entry) for i, entry in enumerate(content)]
    pairs = [(key_of(image), caption) for image, caption in entries]
    repeated = first_repeated(image for image, _ in pairs)
    if repeated is not None:
        raise DataError(f"{file.name} has two captions of image {repeated}; keep one")
    return dict(pairs)


def _pair(file: Path, i: int, entry: Any) -> tuple[str, str]:
    try:
        image, caption = entry["image_id"], sound_text(entry["caption"])
        if type(image) is int:
            return str(image), caption
        return sound_text(image), caption
    except MISFITS as error:
        raise DataError(f"{file.name}, entry {i}: wanted {WANTED}") from error
