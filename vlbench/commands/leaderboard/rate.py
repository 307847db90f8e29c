"""`vlbench leaderboard rate`: write sheets to rate questions, or read filled sheets."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vlbench.boards.artifacts import read_table
from vlbench.catalog.catalog import load_catalog
from vlbench.commands import Answer
from vlbench.commands.parser import (
    add_data,
    add_data_name,
    add_output,
    add_trust,
    positive,
    set_up_for_data,
    whole_number,
)
from vlbench.errors import printed
from vlbench.metrics.intervals import Estimate
from vlbench.probes.question_generation.rating.scores import (
    FILLED,
    MeanRating,
    agreement,
    as_json,
    mean_ratings,
    read_ratings,
)
from vlbench.probes.question_generation.rating.sheets import (
    COLUMNS,
    FOR_RATERS,
    KEY,
    QUESTIONS,
    SHEETS,
    sample_questions,
    write_sheets,
)
from vlbench.report.data_sets import named_row
from vlbench.report.texts import plain_table
from vlbench.system.files import write_whole

# The statistics of filled sheets, written beside the key.
RATINGS = "ratings.json"


def add_options(rate: argparse.ArgumentParser) -> None:
    """Add the options for the folder of the sheets, and for the sample."""
    rate.add_argument(
        "folder", type=Path, metavar="OUT", help="the folder of the sheets and their key"
    )
    rate.add_argument(
        "--of",
        nargs=2,
        metavar=("TASK", "MODEL"),
        help="write the sheets for this row (default: read the filled sheets in OUT)",
    )
    rate.add_argument(
        "--steps",
        default="1,2,3",
        metavar="STEP,...",
        help="the systems compared with the human questions (default: 1,2,3)",
    )
    rate.add_argument(
        "--images",
        dest="sampled",
        type=positive,
        default=50,
        metavar="N",
        help="images to sample (default: 50)",
    )
    rate.add_argument(
        "--seed",
        type=whole_number,
        default=0,
        metavar="N",
        help="seed of the sample and the order (default: 0)",
    )
    add_data_name(rate)
    add_data(rate)
    add_trust(rate)
    add_output(rate)


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the sheets of a row, with `--of`; otherwise read the filled sheets."""
    return _write(arguments) if arguments.of else _read(arguments.folder)


def _write(arguments: argparse.Namespace) -> Answer:
    """Write the sheets, and return the next steps."""
    from vlbench.run.item_images import images_of

    folder, seed = arguments.folder, arguments.seed
    task, model = arguments.of
    row = named_row(arguments.output, task, model, arguments.data)
    steps = arguments.steps.split(",")
    questions = read_table(arguments.output, row, QUESTIONS, COLUMNS)
    sampled = sample_questions(row, questions, steps, images=arguments.sampled, seed=seed)
    with set_up_for_data(arguments) as options:
        digests = [item.digest for item in sampled]
        images = images_of(load_catalog(options.include_path), row.task, digests, options)
    count = write_sheets(folder, row, sampled, images, seed)
    return Answer(
        (
            f"wrote {len(SHEETS)} sheets of {count} questions about {len(sampled)} images",
            f"1. give {folder / FOR_RATERS} to the raters; do not show them {folder / KEY}",
            f"2. put each rater's filled CSV files into {folder / FILLED / 'NAME'}",
            f"3. run: vlbench leaderboard rate {folder}",
        )
    )


def _read(folder: Path) -> Answer:
    """Return the statistics of filled sheets as a table, and write them beside the key."""
    ratings = read_ratings(folder)
    content = json.dumps(as_json(ratings), indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(folder / RATINGS, f"{content}\n".encode())
    raters, images, systems = next(iter(ratings.answers.values())).shape
    columns = ["sheet", "system", "mean rating (1 to 5)", "difference from human"]
    table = plain_table(columns, [_cells(rating) for rating in mean_ratings(ratings)])
    key = ratings.key
    title = f"{key.model} on {key.task}: {raters} raters, {images} images, {systems} systems"
    agreed = [
        f"{name}: Krippendorff's ordinal alpha {_alpha(agreement(answers))}"
        for name, answers in ratings.answers.items()
    ]
    return Answer([printed(title), table, *agreed, f"wrote {folder / RATINGS}"])


def _cells(rating: MeanRating) -> list[str]:
    less = rating.difference_from_human
    difference = _with_interval(less, "+.2f") if less else "-"
    return [rating.sheet, printed(rating.system), _with_interval(rating.mean, ".2f"), difference]


def _with_interval(estimate: Estimate, form: str) -> str:
    low, high = (format(bound, form) for bound in estimate.ci95)
    return f"{format(estimate.value, form)} [{low}, {high}]"


def _alpha(value: float | None) -> str:
    return "undefined (all answers are equal)" if value is None else f"{value:.3f}"
