"""VQG: Mostafazadeh et al. 2016, arXiv:1603.06059.

Its CSV files have one row per image, with all questions in one cell, separated by `---`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from vlbench.data.asked_images import (
    COCO_HOME,
    NO_QUESTION,
    AskedImage,
    Sources,
    asked_data,
    captions_of,
)
from vlbench.data.coco_files import first_repeated, is_number, read_captions, read_text
from vlbench.data.presence import begin_reading, require_files
from vlbench.data.records import Data
from vlbench.errors import DataError

HOME = "Microsoft Research, VQG Dataset v1.0"
EXPECTED = {"train": 2500, "val": 1250, "test": 1250}
SPLITS = tuple(EXPECTED)

# The parts of COCO from which the images come.
PARTS = ("train2014", "val2014")

# The original files, and the files of a copy that omits images with dead links.
ENDINGS = ("all.csv", "all_clean.csv")
BETWEEN = "---"


def vqg(
    *,
    root: Path,
    source: Literal["coco", "flickr", "bing"] = "coco",
    coco: Path | None = None,
    features: Path | None = None,
    splits: Sequence[str] = SPLITS,
) -> Data:
    """Return the images of one source with their questions, in the order of the files.

    The columns are listed in `vlbench.data.asked_images`. Test questions have `ratings` (1 to 3 in
    the paper, but files also contain 4). If an image's numbers of ratings and questions differ, its
    questions count as unrated. If `coco` is None, the source coco has neither captions nor images.
    The source bing has captions in its CSV files, flickr has no captions.

    Args:
        root: folder of VQG's CSV files.
        source: source of the images: `coco`, `flickr` or `bing`.
        coco: COCO's folder with annotations and images of train2014 and val2014, only for the
            source coco; None: neither.
        features: file or folder of region features of COCO's images (see `vlbench.data.regions`);
            None: the data have no regions.
        splits: splits to read: train, val, test, or several.
    """
    if unknown := [name for name in splits if name not in SPLITS]:
        raise ValueError(f"no split '{unknown[0]}'; there are {', '.join(SPLITS)}")
    if source != "coco" and (coco or features):
        raise ValueError(f"the images of {source} are not from COCO: leave out coco and features")
    files = {name: _file(root, f"{source}_{name}") for name in splits}
    texts = [coco / f"annotations/captions_{part}.json" for part in PARTS] if coco else []
    require_files(f"VQG's {source}", HOME, *files.values())
    require_files("COCO's captions", COCO_HOME, *texts)
    begin_reading()
    captions = [read_captions(text) for text in texts]
    return asked_data(
        {name: _add_captions(file, captions) for name, file in files.items()},
        dict.fromkeys(files, Sources(coco, PARTS, features)),
        {name: EXPECTED[name] for name in splits},
    )


def read_vqg(file: Path) -> Iterator[AskedImage]:
    """Return the images of a CSV file, with captions if the file contains them.

    Cells that are empty or `none` are not questions. Raises DataError with the file and the
    line.
    """
    lines = csv.reader(io.StringIO(read_text(file), newline=""), strict=True)
    try:
        header = next(lines, [])
        if absent := [name for name in ("image_id", "questions") if name not in header]:
            raise DataError(f"{file.name} has no column {absent[0]}; it has {', '.join(header)}")
        rows = []
        for cells in lines:
            if len(cells) != len(header):
                raise DataError(
                    f"{file.name}, line {lines.line_num}: {len(cells)} columns, not {len(header)}"
                )
            rows.append(dict(zip(header, cells, strict=True)))
    except csv.Error as error:
        raise DataError(f"{file.name}, line {lines.line_num}: {error}; fetch it again") from error
    if (repeated := first_repeated(row["image_id"] for row in rows)) is not None:
        raise DataError(f"{file.name} has image {repeated!s:.60} twice; fetch it again")
    return map(_read_row, rows)


def _read_row(row: Mapping[str, str]) -> AskedImage:
    questions = _split_cell(row["questions"])
    cells = row.get("ratings", "").split(BETWEEN)
    ratings = [_rating(text) for text in cells] if len(cells) == len(questions) else []
    rated = zip(questions, ratings or [None] * len(questions), strict=True)
    kept = [(text, rating) for text, rating in rated if _is_said(text)]
    return AskedImage(
        row["image_id"],
        [text for text, _ in kept],
        [rating for _, rating in kept],
        [text for text in _split_cell(row.get("captions", "")) if _is_said(text)],
    )


def _add_captions(
    file: Path, captions: Sequence[Mapping[int, Sequence[str]]]
) -> Iterator[AskedImage]:
    """Yield the images of a file, with their COCO captions if these are given."""
    where = "captions_train2014.json or captions_val2014.json"
    for row in read_vqg(file):
        if not captions or not row.questions:
            yield row
        elif is_number(row.id):
            yield row._replace(captions=captions_of(int(row.id), captions, where))
        else:
            raise DataError(f"{file.name}: {row.id!r:.60} is not an image id of COCO")


def _file(root: Path, name: str) -> Path:
    """Return the first file of a split that exists, or the original file's path."""
    files = [root / f"{name}_{ending}" for ending in ENDINGS]
    return next((file for file in files if file.is_file()), files[0])


def _split_cell(cell: str) -> list[str]:
    """Return the texts of a cell; some separators in the files have a fourth dash."""
    return [text.strip().lstrip("-").strip() for text in cell.split(BETWEEN)]


def _is_said(text: str) -> bool:
    return text.lower() not in {"", NO_QUESTION}


def _rating(text: str) -> int | None:
    """Return a rating; None for a text that is not a number (the files contain a `y`)."""
    return int(text) if is_number(text.strip()) else None
