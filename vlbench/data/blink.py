"""BLINK: 14 tasks of perception as multiple choice. Fu et al. 2024, arXiv:2404.12390.

The answer key is eval/val_answers.json of github.com/zeyofu/BLINK_Benchmark (Apache-2.0): the right
letter of each of the 1,901 validation items, whose names have the task. Recorded answers need no
more. An item has one to four images. The six tasks about one image are read from the hub's files,
BLINK-Benchmark/BLINK, for models that answer: TASK/val-00000-of-00001.parquet with the columns
`idx`, `question`, `choices`, `answer` ("(A)") and `image_1` (bytes).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from vlbench.data.coco_files import read_text
from vlbench.data.hub_sets import streamed_images
from vlbench.data.images import named_images
from vlbench.data.parquet_files import read_parquet, values
from vlbench.data.pictures import pictures
from vlbench.data.presence import begin_reading, require_files
from vlbench.data.records import Data, Split, value_column
from vlbench.errors import DataAbsent, DataError

HOME = "github.com/zeyofu/BLINK_Benchmark (eval/val_answers.json)"
HUB = "the hub's dataset BLINK-Benchmark/BLINK"

# The number of validation items of each task, and of their options.
TASKS = {
    "Art_Style": (117, 2),
    "Counting": (120, 4),
    "Forensic_Detection": (132, 4),
    "Functional_Correspondence": (130, 4),
    "IQ_Test": (150, 4),
    "Jigsaw": (150, 2),
    "Multi-view_Reasoning": (133, 2),
    "Object_Localization": (122, 2),
    "Relative_Depth": (124, 2),
    "Relative_Reflectance": (134, 3),
    "Semantic_Correspondence": (139, 4),
    "Spatial_Relation": (143, 2),
    "Visual_Correspondence": (172, 4),
    "Visual_Similarity": (135, 2),
}
LETTERS = "ABCD"

# The tasks whose items have one image.
ONE_IMAGE = (
    "Counting",
    "IQ_Test",
    "Object_Localization",
    "Relative_Depth",
    "Relative_Reflectance",
    "Spatial_Relation",
)
COLUMNS = ("idx", "question", "choices", "answer", "image_1")
NAME, LETTER = re.compile(r"val_(.+)_\d+"), re.compile(r"\(([A-D])\)")


def options_of(item: str) -> list[str]:
    """Return the letters of an item's options. Raises ValueError for another name than BLINK's."""
    match = NAME.fullmatch(item)
    if not match or match[1] not in TASKS:
        raise ValueError(f"{item!r:.60} is not the name of a validation item of BLINK")
    return [*LETTERS[: TASKS[match[1]][1]]]


def _right_letters(file: Path) -> dict[str, str]:
    """Return the right letter of each item by its name, in the order of the file."""
    try:
        content = json.loads(read_text(file))
        right = {name: LETTER.fullmatch(answer)[1] for name, answer in content.items()}  # type: ignore[index]
        wrong = [name for name, letter in right.items() if letter not in options_of(name)]
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{file.name} is no answer key of BLINK: {error!s:.100}") from error
    if wrong:
        raise DataError(f"{file.name}: the answer to {wrong[0]} is {right[wrong[0]]}, no option")
    return right


def blink(*, root: Path) -> Data:
    """Return the validation items; `category` is the task, and options are letters.

    Columns: `image` (by the item's name), `question` (empty), `options`, `right_answers`,
    `category`. Raises DataAbsent and DataError.

    Args:
        root: folder with val_answers.json.
    """
    file = root / "val_answers.json"
    require_files("BLINK's answer key", HOME, file)
    begin_reading()
    right = _right_letters(file)
    names, options = [*right], [options_of(name) for name in right]
    absent = DataAbsent("BLINK's images", HUB, "nothing reads them yet; score recorded answers")
    columns = {
        "image": named_images("BLINK validation", names, None, absent),
        "question": value_column([""] * len(names), "text"),
        "options": value_column(options),
        "right_answers": value_column([[letter] for letter in right.values()]),
        "category": value_column([name.removeprefix("val_").rpartition("_")[0] for name in names]),
    }
    expected = sum(count for count, _ in TASKS.values())
    return Data(splits={"test": Split(columns)}, expected={"test": expected})


def blink_images(*, root: Path) -> Data:
    """Return the validation items of the six tasks about one image; `category` is the task.

    Columns: `image`, `picture`, `question`, `options`, `right_answers`, `category`. Images are
    identified by the names of the items. Raises DataAbsent and DataError.

    Args:
        root: folder with a folder for each task, of the hub's parquet files.
    """
    files = {task: sorted((root / task).glob("val-*.parquet")) for task in ONE_IMAGE}
    for task, parts in files.items():
        if not parts:
            raise DataAbsent(f"BLINK's task {task}", HUB, str(root / task))
    begin_reading()
    rows = [row for parts in files.values() for file in parts for row in _rows(file)]
    names = [row["idx"] for row in rows]
    encoded = [((row["image_1"] or {}).get("bytes") or b"", row["idx"]) for row in rows]
    stored = replace(streamed_images(encoded), names=names)
    images = named_images("BLINK validation", names, stored, None)
    split = pictures(images, names, None)
    right = [row["choices"][LETTERS.index(row["answer"][1])] for row in rows]
    split["question"] = value_column([row["question"] for row in rows], "text")
    split["options"] = value_column([row["choices"] for row in rows])
    split["right_answers"] = value_column([[option] for option in right])
    split["category"] = value_column([NAME.sub(r"\1", name) for name in names])
    expected = sum(TASKS[task][0] for task in ONE_IMAGE)
    several = ", ".join(task for task in TASKS if task not in ONE_IMAGE)
    notes = [f"left out: the tasks about several images, {several}"]
    return Data(splits={"test": Split(split)}, expected={"test": expected}, notes=notes)


def _rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of the hub. Raises DataError, with the row, for another form."""
    try:
        with file.open("rb") as stream:
            cells = values(read_parquet(stream, COLUMNS), stream)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise DataError(f"{file.name} of {file.parent.name} cannot be read: {error}") from error
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    for number, row in enumerate(rows):
        letters = options_of(row["idx"]) if NAME.fullmatch(str(row["idx"])) else []
        fits = len(row["choices"] or []) == len(letters) and LETTER.fullmatch(str(row["answer"]))
        if not (fits and row["answer"][1] in letters and isinstance(row["question"], str)):
            raise DataError(f"{file.parent.name}, row {number} of {file.name}, is no item of BLINK")
    return rows
