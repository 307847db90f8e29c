"""Writes the sheets for raters into one folder, and the key beside that folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL.Image import Image

from vlbench.errors import UnknownNameError
from vlbench.files import write_whole
from vlbench.leaderboard.judgement.material import QUESTIONS, Shown
from vlbench.leaderboard.judgement.pages import picture, sheet_html
from vlbench.leaderboard.judgement.sheets import (
    KEY,
    SCHEMA,
    SHEETS,
    Key,
    image_name,
    key_json,
    lines_of,
    sheet_csv,
)
from vlbench.results import Result

# The folder that raters get.
FOR_JUDGES = "sheets"


def write_sheets(
    folder: Path, row: Result, shown: Sequence[Shown], images: Mapping[str, Image], seed: int
) -> int:
    """Write each sheet as CSV and HTML, the images, and the key; return the lines per sheet.

    `images` are by digest. Raises UnknownNameError where the folder already has a key.
    """
    if (folder / KEY).exists():
        raise UnknownNameError(
            f"{folder} already has the {KEY} of other sheets; choose another folder"
        )
    lines = lines_of(shown, seed)
    pictures = {image_name(i): picture(images[one.digest]) for i, one in enumerate(shown)}
    files = dict(pictures)
    for sheet in SHEETS:
        files[f"{sheet.name}.csv"] = sheet_csv(sheet, lines[sheet.name])
        files[f"{sheet.name}.html"] = sheet_html(sheet, lines[sheet.name], pictures)
    for name, content in files.items():
        write_whole(folder / FOR_JUDGES / name, content)
    key = Key(
        schema=SCHEMA,
        task=row.task,
        model=row.model,
        questions=row.artifacts[QUESTIONS]["sha256"],
        seed=seed,
        systems=list(shown[0].questions),
        sheets=lines,
    )
    write_whole(folder / KEY, key_json(key))
    return len(lines[SHEETS[0].name])
