"""`vlbench leaderboard compare`: test which of several models is better."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import chain
from typing import Any

from rich.table import Table
from rich.text import Text

from vlbench.catalog.library_names import row_name
from vlbench.commands import Answer
from vlbench.commands.parser import add_output
from vlbench.errors import UnknownNameError, printed, spaced
from vlbench.report.comparing import Comparisons, PairedTest, compare_models, numbers_of, ranks
from vlbench.report.export import csv
from vlbench.report.leaders import LEVEL
from vlbench.report.rows import lent_note
from vlbench.report.texts import Grid, plain_table, score_name, value

HEAD = ("task", "A", "B", "A - B", "95 % interval", "p (Holm)", "A better, worse, same",
        "items in clusters")  # fmt: skip
OUTCOMES = 6
# If more models are compared, only their ranks are printed.
MOST_MODELS = 6
RANKS = "ranks that hold, by all pairs (p < 0.05 after Holm's rule)"
COLUMNS = ("task", "metric", "at", "a", "b", "value_a", "value_b", "difference", "ci95_low",
           "ci95_high", "unit", "higher_is_better", "p", "p_holm", "detectable", "items",
           "clusters")  # fmt: skip


def add_options(compare: argparse.ArgumentParser) -> None:
    """Add the options for models, tasks and scores."""
    compare.add_argument(
        "models", type=row_name, nargs="+", metavar="MODEL", help="two models or more, or a glob"
    )
    compare.add_argument(
        "--tasks",
        metavar="TASK,...",
        help="default: every board on which all the models have scores",
    )
    compare.add_argument(
        "--all-scores", action="store_true", help="all scores, not only the primary score"
    )
    compare.add_argument(
        "--format", choices=("csv", "json", "md", "tex"), help="default: for a terminal"
    )
    add_output(compare)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return a table for each two models, and what could not be compared.

    The exit code is 2 if a comparison is refused, and 1 if nothing has items to compare.
    """
    tasks = arguments.tasks.split(",") if arguments.tasks else []
    boards = {file.stem for file in arguments.output.glob("*.json")}
    for name in (model for model in arguments.models if model in boards):
        raise UnknownNameError(f"{name} is a task; to compare on it, pass --tasks {name}")
    report = compare_models(
        arguments.output, arguments.models, tasks, all_scores=arguments.all_scores
    )
    remarks = [*map(lent_note, report.lent), *report.refused, *report.no_means, *_lacking(report)]
    problems = [printed(remark) for remark in remarks]
    code = 2 if report.refused else 0 if report.compared else 1
    if arguments.format in ("csv", "json"):
        lines = [numbers_of(result) for result in report.compared]
        if arguments.format == "csv":
            return Answer([csv.lines(COLUMNS, lines).removesuffix("\r\n")], problems, code)
        return Answer([json.dumps(lines, indent=1, allow_nan=False)], problems, code)
    pairs = dict.fromkeys(result.models for result in report.compared)
    of_pairs = [[result for result in report.compared if result.models == pair] for pair in pairs]
    notes = [*_notes(report), *_boards_say(report), *(f"note: {note}" for note in report.notes)]
    if len({*chain.from_iterable(pairs)}) > MOST_MODELS and not arguments.format:
        notes = [f"{len(pairs)} pairs of models: --format csv lists them", *notes]
        of_pairs = []
    if arguments.format:
        form: Any = import_module(f"vlbench.report.export.{arguments.format}")
        text = "\n".join(form.grid(_grid(compared, notes)) for compared in of_pairs)
        return Answer([text.removesuffix("\n")], problems, code)
    return Answer([*_ranked(report), *map(_table, of_pairs), *notes], problems, code)


def _ranked(report: Comparisons) -> Iterator[Table]:
    """Yield a table of the ranks of three models or more for each score."""
    for label, places in ranks(report, LEVEL).items():
        ends = [(place.best, place.worst) for place in places]
        texts = [f"{best} to {worst}" if best < worst else str(best) for best, worst in ends]
        pairs = zip(places, texts, strict=True)
        rows = [[place.model, value(place.score), text] for place, text in pairs]
        yield plain_table(["model", "score", "rank"], rows, f"{spaced(label)}: {RANKS}")


def _table(compared: Sequence[PairedTest]) -> Table:
    """Return the comparisons of two models; a narrow terminal breaks long cells between words."""
    (a, b), grid = compared[0].models, _grid(compared)
    table = plain_table(grid.head, grid.rows, f"A: {a}\nB: {b}")
    table.columns[0].no_wrap, table.columns[0].min_width = False, 12
    table.caption = Text(f"{_detectable(compared)}\n", "table.caption")
    table.caption_justify = "left"
    return table


def _grid(compared: Sequence[PairedTest], notes: Sequence[str] = ()) -> Grid:
    """Return the comparisons of two models, without outcomes if no score has a direction."""
    rows = [[*HEAD], *map(_cells, compared)]
    if all(result.scores[0].higher_is_better is None for result in compared):
        rows = [[*row[:OUTCOMES], *row[OUTCOMES + 1 :]] for row in rows]
    a, b = compared[0].models
    note = ". ".join([_detectable(compared), *notes]) + "."
    return Grid(f"A: {a}, B: {b}", rows[0], rows[1:], "l" + "r" * (len(rows[0]) - 1), note)


def _detectable(compared: Sequence[PairedTest]) -> str:
    """Return the detectable difference on each task."""
    sizes = [
        f"{printed(result.task)} {_size(result.comparison.detectable, result.scores[0].unit)}"
        for result in compared
    ]
    return f"detectable with 80 % power at p < 0.05: {', '.join(sizes)}"


def _cells(result: PairedTest) -> list[str]:
    (first, second), test = result.scores, result.comparison
    worse = {True: "", False: ", lower is better", None: ", no direction"}[first.higher_is_better]
    outcomes = () if first.higher_is_better is None else test.outcomes or ()
    low, high = (_with_sign(bound, first.unit) for bound in test.ci95)
    clusters = f" in {test.clusters}" if test.clusters < test.items else ""
    return [
        spaced(f"{result.task}: {score_name(first.metric, first.at)}{worse}"),
        value(first),
        value(second),
        _with_sign(test.difference, first.unit),
        f"{low} to {high}",
        f"{_p(test.p)} ({_p(result.p_holm)})",
        ", ".join(map(str, outcomes)) or "-",
        f"{test.items}{clusters}",
    ]


def _with_sign(value: float, unit: str) -> str:
    """Return a difference with its sign; for fractions, in percentage points."""
    return f"{100 * value:+z.1f}" if unit == "fraction" else f"{value:+z.4g}"


def _size(difference: float, unit: str) -> str:
    return f"{100 * difference:.1f} points" if unit == "fraction" else f"{difference:.3g}"


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _notes(report: Comparisons) -> list[str]:
    """Return the notes of comparisons, each with its tasks."""
    tasks: dict[str, list[str]] = {}
    for result in report.compared:
        for note in result.comparison.notes:
            tasks.setdefault(note, []).append(result.task)
    return [f"{', '.join(dict.fromkeys(names))}: {note}" for note, names in tasks.items()]


def _boards_say(report: Comparisons) -> Iterator[str]:
    """Yield a line if a pair differs on the board but not in this comparison, or the reverse."""
    for pair in report.compared:
        p = pair.board_p
        if p is not None and (p < LEVEL) != (pair.p_holm < LEVEL):
            board, here = ("differs", "does not") if p < LEVEL else ("does not differ", "does")
            yield (
                f"{printed(pair.task)}: on the board this pair {board} (p {_p(p)} after correction "
                f"for all pairs, against its leader); here it {here}"
            )


def _lacking(report: Comparisons) -> list[str]:
    """Return a line for each model without items, with the command that computes them."""
    return [
        f"{model} has no items on {', '.join(tasks)}: only means over examples have items; for a "
        f"row from an older vlbench, run vlbench --model {shlex.quote(model)} --tasks "
        f"{','.join(tasks)} --overwrite"
        for model, tasks in report.lacking.items()
    ]
