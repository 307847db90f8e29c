"""A user's own images with captions: `cat.jpg`, and `cat.txt` with a caption per line."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from vlbench.data.coco_files import lines_of, read_text
from vlbench.data.folders import count_kinds, dropped_files, visible_files
from vlbench.data.gate import (
    Columns,
    RowOptions,
    Rows,
    begin,
    columns_of,
    data_of_rows,
    own_columns,
    rows_of_files,
)
from vlbench.data.images import SUFFIXES
from vlbench.data.names import composed
from vlbench.data.presence import require_folder
from vlbench.data.records import Data
from vlbench.errors import DataError, counted

TEXT = ".txt"


def captioned_folder(*, root: Path, **options: Unpack[RowOptions]) -> Data:
    """Return the images of a folder and its subfolders with their captions, ordered by name.

    The captions of an image are the non-blank lines of the text file beside it, which has the same
    name with another suffix. `captions` lists all of them, `caption` is the first. All images are
    the test split, with the columns `image` (a path) and `caption`. Images without captions, texts
    without an image, and other files are left out and counted. Raises DataAbsent if the folder is
    missing, and DataError for two images or two texts of one name, and if no image has a caption.

    Args:
        root: folder of the images and their text files.
        **options: options of every source of rows, see `vlbench.data.gate.RowOptions`.
    """
    where = f"{root}/<name>.jpg, <name>.txt"
    require_folder("folder of captioned images", "your own images", root, where)
    begin(options)
    columns = columns_of(options, label="", caption="caption")
    return data_of_rows(options, columns, {"test": partial(_rows, root, columns)})


def _rows(root: Path, columns: Columns) -> Rows:
    """Return the captioned images of a folder, and the number of its files that are left out."""
    files, left_out = visible_files(root)
    images = _by_stem(name for name in files if name.lower().endswith(SUFFIXES))
    texts = _by_stem(name for name in files if name.lower().endswith(TEXT))
    captions = {stem: _captions(root, texts[stem]) for stem in images if stem in texts}
    captioned = {images[stem]: texts for stem, texts in captions.items() if texts}
    if not captioned:
        raise DataError(
            f"{root.name} has no image with captions ({counted(len(images), 'image')}, "
            f"{counted(len(texts), 'text')}); write the captions of cat.jpg to cat.txt beside it, "
            "one per line"
        )
    others = set(files) - {*images.values(), *texts.values()}
    dropped = {
        "images without captions": len(images) - len(captioned),
        "texts without an image": len(texts) - len(captions),
        **dropped_files(count_kinds(others) + left_out, "images or captions"),
    }
    cells: dict[str, list[Any]] = {"image": [*captioned], "caption": [*captioned.values()]}
    own_columns(columns, cells, root.name)
    return rows_of_files(root, root.name, cells, dropped=dropped)


def _by_stem(names: Iterable[str]) -> dict[str, str]:
    """Return files by name without suffix. Raises DataError, naming both, for two of one name."""
    files: dict[str, str] = {}
    for name in names:
        # macOS may have unpacked one of the two files and changed the spelling of its name.
        if (other := files.setdefault(composed(name.rpartition(".")[0]), name)) != name:
            raise DataError(f"{other} and {name} differ only in their suffix; rename one file")
    return files


def _captions(root: Path, name: str) -> list[str]:
    """Return the lines that are not blank, unchanged."""
    return [line for line in lines_of(read_text(root / name, name)) if line.strip()]
