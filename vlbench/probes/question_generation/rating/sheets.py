"""Sheets for raters, one per criterion, and the key with the system of each question.

As in arXiv:2002.10832, section "Human Evaluation": a Likert scale from 1 to 5 for readability
(given only the question), caption relevance (given only the caption), image relevance (given only
the image).
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
from PIL.Image import Image

from vlbench.drawing.html import render_html
from vlbench.drawing.sheets import png
from vlbench.errors import TooFewRows, UnknownNameError, counted, require_known
from vlbench.results import Result
from vlbench.system.files import harmless, write_whole

# The artifact with the questions of a row, and the columns that are read.
QUESTIONS = "questions"
COLUMNS = ("id", "digest", "step", "floor", "seed", "caption", "question", "references")

# The name of the system whose questions are human references.
HUMAN = "human"

# The columns that every sheet has, and the answers allowed.
NUMBER, QUESTION, ANSWER = "number", "question", "answer"
ANSWERS = ("1", "2", "3", "4", "5")

# The file of the key, and its schema.
KEY, SCHEMA = "key.json", 1

HERE = Path(__file__).parent

# Pixels of an image's longest side; small images are enlarged to half of it by a whole factor.
SIDE = 400

# The folder for raters.
FOR_RATERS = "sheets"


class SampledImage(NamedTuple):
    """An image by its id and digest, its caption, and one question per system."""

    id: str
    digest: str
    caption: str
    questions: dict[str, str]


def sample_questions(
    row: Result,
    questions: Sequence[Mapping[str, Any]],
    steps: Sequence[str],
    *,
    images: int,
    seed: int,
) -> list[SampledImage]:
    """Return a random sample of images, each with one question per step and a human question.

    `questions` are the COLUMNS of the table stored with the row. If there are several training
    seeds, the first is used. The human question is drawn at random from the image's references.
    Raises UnknownNameError for a step without questions, and TooFewRows for too few images.
    """
    if len(set(steps)) != len(steps) or HUMAN in steps or not steps:
        raise UnknownNameError(f"--steps must be different steps, without '{HUMAN}': {steps}")
    by_step = _by_step(questions)
    require_known("step", steps, by_step)
    common = [name for name in by_step[steps[0]] if all(name in by_step[step] for step in steps)]
    if len(common) < images or images < 2:
        where = f"{row.model} on {row.task} has questions about {counted(len(common), 'image')}"
        raise TooFewRows(f"{where}, {images} requested; pass --images N, at least 2")
    rng = np.random.default_rng(seed)
    drawn = sorted(rng.permutation(len(common))[:images].tolist())
    return [_sample_image([by_step[step][common[i]] for step in steps], steps, rng) for i in drawn]


def _by_step(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return the rows of each step's first seed by image, without the rows of floors."""
    by_step: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["seed"] or 0):
        if row["step"] is not None and row["floor"] is None:
            by_step.setdefault(row["step"], {}).setdefault(row["id"], row)
    return by_step


def _sample_image(
    rows: Sequence[Mapping[str, Any]], steps: Sequence[str], rng: np.random.Generator
) -> SampledImage:
    first = rows[0]
    human = first["references"][int(rng.integers(len(first["references"])))]
    texts = dict(zip(steps, (row["question"] for row in rows), strict=True)) | {HUMAN: human}
    questions = {system: hide_origin(text) for system, text in texts.items()}
    return SampledImage(first["id"], first["digest"], first["caption"], questions)


def hide_origin(text: str) -> str:
    """Return a question in lower case without spaces before punctuation.

    Case and spacing would reveal which questions are human and which come from a tokenizer.
    """
    joined = re.sub(r"\s+([?!.,;:%)])", r"\1", " ".join(text.lower().split()))
    return re.sub(r"(\w)\s*(['\u2019-])\s*(\w)", r"\1\2\3", joined)


class Sheet(NamedTuple):
    """A criterion: its name, the context shown, the question to raters, and ends of the scale."""

    name: str
    beside: str
    asks: str
    ends: tuple[str, str]


SHEETS = (
    Sheet("readability", "", "How well is the question written?", ("not readable", "well written")),
    Sheet(
        "caption_relevance",
        "caption",
        "How relevant is the question to the caption?",
        ("not at all", "very"),
    ),
    Sheet(
        "image_relevance",
        "image",
        "How relevant is the question to the image?",
        ("not at all", "very"),
    ),
)


@dataclass(frozen=True)
class SheetLine:
    """A line of a sheet: its number (from 1), its image and system, and the texts shown."""

    number: int
    image: str
    system: str
    beside: str
    question: str


@dataclass(frozen=True, kw_only=True)
class Key:
    """The system behind each line of each sheet; raters must not see it.

    `questions` is the sha256 of the artifact that the questions were sampled from with this seed.
    """

    schema: int
    task: str
    model: str
    questions: str
    seed: int
    systems: Sequence[str]
    sheets: Mapping[str, Sequence[SheetLine]]


def lines_of(drawn: Sequence[SampledImage], seed: int) -> dict[str, list[SheetLine]]:
    """Return the lines of each sheet: one question per image and system, shuffled per sheet."""
    lines = {}
    for i, sheet in enumerate(SHEETS):
        rng = np.random.default_rng([seed, i])
        pairs = [(place, system) for place, image in enumerate(drawn) for system in image.questions]
        order = rng.permutation(len(pairs)).tolist()
        lines[sheet.name] = [
            _line(sheet, number, drawn[pairs[j][0]], *pairs[j]) for number, j in enumerate(order, 1)
        ]
    return lines


def _line(sheet: Sheet, number: int, image: SampledImage, place: int, system: str) -> SheetLine:
    besides = {"": "", "caption": image.caption, "image": image_name(place)}
    return SheetLine(number, image.id, system, besides[sheet.beside], image.questions[system])


def image_name(place: int) -> str:
    """Return the file name of a sampled image, which reveals nothing about it."""
    return f"images/{place + 1}.png"


def columns_of(sheet: Sheet) -> list[str]:
    """Return the columns of a sheet."""
    return [NUMBER, *([sheet.beside] if sheet.beside else []), QUESTION, ANSWER]


def sheet_csv(sheet: Sheet, lines: Sequence[SheetLine]) -> bytes:
    """Return an empty sheet as CSV, in UTF-8 with a byte order mark for spreadsheets."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(columns_of(sheet))
    writer.writerows([*cells_of(sheet, line), ""] for line in lines)
    return written.getvalue().encode("utf-8-sig")


def cells_of(sheet: Sheet, line: SheetLine) -> list[str]:
    """Return the cells of a line before its answer.

    A text that a spreadsheet would read as a formula is prefixed with an apostrophe.
    """
    besides = [line.beside] if sheet.beside else []
    texts = (harmless(" ".join(text.split())) for text in (*besides, line.question))
    return [str(line.number), *texts]


def picture(image: Image) -> bytes:
    """Return an image as PNG, resized for display."""
    longest = max(image.size)
    scale = SIDE / longest if longest > SIDE else max(1, SIDE // 2 // longest)
    size = [max(1, round(side * scale)) for side in image.size]
    how = PIL.Image.Resampling.NEAREST if scale >= 1 else PIL.Image.Resampling.LANCZOS
    return png(image.resize((size[0], size[1]), how))


def sheet_html(sheet: Sheet, lines: Sequence[SheetLine], pictures: Mapping[str, bytes]) -> bytes:
    """Return a sheet as HTML; `pictures` are PNG images by the file names used in the lines."""
    style, script = ((HERE / name).read_text("utf-8") for name in ("sheet.css", "sheet.js"))
    encoded = {name: base64.b64encode(content).decode() for name, content in pictures.items()}
    return render_html(
        HERE / "sheet.html",
        style,
        script,
        sheet=sheet,
        columns=columns_of(sheet),
        lines=[(line, cells_of(sheet, line)) for line in lines],
        answers=ANSWERS,
        pictures=encoded if sheet.beside == "image" else {},
    )


def write_sheets(
    folder: Path, row: Result, drawn: Sequence[SampledImage], images: Mapping[str, Image], seed: int
) -> int:
    """Write each sheet as CSV and HTML, the images, and the key; return the lines per sheet.

    `images` are keyed by digest. Raises UnknownNameError if the folder already has a key.
    """
    if (folder / KEY).exists():
        raise UnknownNameError(
            f"{folder} already has the {KEY} of other sheets; choose another folder"
        )
    lines = lines_of(drawn, seed)
    pictures = {image_name(i): picture(images[image.digest]) for i, image in enumerate(drawn)}
    files = dict(pictures)
    for sheet in SHEETS:
        files[f"{sheet.name}.csv"] = sheet_csv(sheet, lines[sheet.name])
        files[f"{sheet.name}.html"] = sheet_html(sheet, lines[sheet.name], pictures)
    for name, content in files.items():
        write_whole(folder / FOR_RATERS / name, content)
    key = Key(
        schema=SCHEMA,
        task=row.task,
        model=row.model,
        questions=row.artifacts[QUESTIONS]["sha256"],
        seed=seed,
        systems=list(drawn[0].questions),
        sheets=lines,
    )
    text = json.dumps(asdict(key), indent=1, ensure_ascii=False)
    write_whole(folder / KEY, f"{text}\n".encode())
    return len(lines[SHEETS[0].name])
