"""`vlbench leaderboard rate`: sheets for human judgement of questions, and their statistics."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vlbench.commands.answer import Answer
from vlbench.errors import printed
from vlbench.files import write_whole
from vlbench.leaderboard.artifacts import read_table
from vlbench.leaderboard.rows import named_row
from vlbench.leaderboard.tables import plain_table
from vlbench.metrics.statistics import Estimate
from vlbench.probes.question_generation.rating.scores import (
    FILLED,
    Rating,
    agreement,
    as_json,
    ratings_of,
    read_judgements,
)
from vlbench.probes.question_generation.rating.sheets import (
    COLUMNS,
    FOR_JUDGES,
    KEY,
    QUESTIONS,
    SHEETS,
    sample_questions,
    write_sheets,
)

# The statistics of filled sheets, written beside the key.
SAID = "judgements.json"


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the sheets of a row, with `--of`; otherwise read the filled sheets."""
    return _written(arguments) if arguments.of else _read(arguments.folder)


def _written(arguments: argparse.Namespace) -> Answer:
    """Write the sheets, and say what to do next."""
    from vlbench.commands.items import images_of  # noqa: PLC0415 - reading needs no torch

    folder, seed = arguments.folder, arguments.seed
    row = named_row(arguments.output, *arguments.of)
    steps = arguments.steps.split(",")
    questions = read_table(arguments.output, row, QUESTIONS, COLUMNS)
    shown = sample_questions(row, questions, steps, images=arguments.images, seed=seed)
    images = images_of(row.task, [one.digest for one in shown], arguments.options)
    count = write_sheets(folder, row, shown, images, seed)
    return Answer(
        (
            f"wrote {len(SHEETS)} sheets of {count} questions about {len(shown)} images",
            f"1. give {folder / FOR_JUDGES} to the raters; do not show them {folder / KEY}",
            f"2. put each rater's filled CSV files into {folder / FILLED / 'NAME'}",
            f"3. run: vlbench leaderboard rate {folder}",
        )
    )


def _read(folder: Path) -> Answer:
    """Return the statistics of filled sheets as a table, and write them beside the key."""
    judgements = read_judgements(folder)
    content = json.dumps(as_json(judgements), indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / SAID, f"{content}\n".encode())
    raters, images, systems = next(iter(judgements.answers.values())).shape
    columns = ["sheet", "system", "mean rating (1 to 5)", "difference from human"]
    table = plain_table(columns, [_cells(one) for one in ratings_of(judgements)])
    key = judgements.key
    title = f"{key.model} on {key.task}: {raters} raters, {images} images, {systems} systems"
    agreed = [
        f"{name}: Krippendorff's ordinal alpha {_alpha(agreement(found))}"
        for name, found in judgements.answers.items()
    ]
    return Answer([printed(title), table, *agreed, f"wrote {folder / SAID}"])


def _cells(one: Rating) -> list[str]:
    less = "-" if one.difference_from_human is None else _shown(one.difference_from_human, "+.2f")
    return [one.sheet, printed(one.system), _shown(one.mean, ".2f"), less]


def _shown(found: Estimate, form: str) -> str:
    low, high = (format(bound, form) for bound in found.ci95)
    return f"{format(found.value, form)} [{low}, {high}]"


def _alpha(value: float | None) -> str:
    return "undefined (all answers are equal)" if value is None else f"{value:.3f}"
