"""`vlbench rerun`: compute a board's row again, and compare every score.

On other processors, or with other versions or numbers of threads, a score may change by rounding.
Each score is equal, within the promised tolerance of that kind of row, or different.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.boards.promised import (
    ABSENT,
    DIFFERENT,
    EQUAL,
    NEW,
    SAME,
    WITHIN,
    ScoreChange,
    score_changes,
)
from vlbench.catalog.library_names import folder_here, pinned, row_name, split_arguments
from vlbench.commands import FAILED, Answer
from vlbench.commands.parser import (
    add_cache,
    add_data,
    add_data_name,
    add_images,
    add_model,
    add_output,
    add_params,
    options_of,
    task_params,
)
from vlbench.errors import SpecError, UnknownNameError, printed
from vlbench.report.data_sets import named_row
from vlbench.report.rows import folder_of, lent_note
from vlbench.report.texts import plain_table, score_name
from vlbench.results import Result
from vlbench.schema import Misfit, read

# Facts of a run that may change a row by rounding.
ROUNDING = ("device", "hardware", "threads")

# Options that are taken from the command line, because the row does not record them.
GIVEN = (
    "include_path",
    "device",
    "offline",
    "trust",
    "cache_dir",
    "data_dir",
    "images",
    "questions",
)


class Rerun(NamedTuple):
    """The row, the model to run, the options to run it with, and notes on the row."""

    row: Result
    model: str
    options: Mapping[str, Any]
    notes: Sequence[str] = ()


def add_options(rerun: argparse.ArgumentParser) -> None:
    """Add the options for the row, and for what the row does not record."""
    rerun.add_argument("board", metavar="BOARD", help="a board's file, or its task in --output")
    rerun.add_argument("model", metavar="MODEL", help="the row's name on the board")
    rerun.add_argument(
        "--as-model", metavar="NAME", help="the model to run, if the row has a --name"
    )
    add_model(rerun)
    add_params(rerun)
    add_data_name(rerun)
    add_data(rerun)
    add_images(rerun)
    add_output(rerun)
    add_cache(rerun)


def answer(arguments: argparse.Namespace) -> Answer:
    """Run a row's task again; return both values of every score, and other differences."""
    rerun = read_rerun(arguments)
    from vlbench.bench import planned_run, run
    from vlbench.engine.progress import Bar
    from vlbench.run.options import Options
    from vlbench.system.console import open_console

    options, task = Options.of(**rerun.options), rerun.row.task
    with _as_model_hint(rerun), planned_run([rerun.model], [task], options) as (planned, processes):
        # A group of tasks may have the same name as a board.
        jobs = [job for job in planned.jobs if job.task.spec.name == task]
        with Bar(open_console()) as bar:
            results = run(replace(planned, jobs=jobs), processes, bar).results
    again = next(iter(results), None)
    if again is None or again.status != "ok":
        now = f"now it is {again.status}: {again.reason}" if again else ""
        problem = now or f"the data of {task} were not found"
        return Answer(problems=[f"vlbench: {problem}"], code=FAILED)
    report = show(rerun.row, again, score_changes(rerun.row, again))
    return report._replace(problems=[*rerun.notes, *report.problems])


@contextmanager
def _as_model_hint(rerun: Rerun) -> Iterator[None]:
    """Add to an unknown model the way to name the model of a row that has a `--name`."""
    try:
        yield
    except UnknownNameError as error:
        if f"'{rerun.row.model}'" not in str(error):
            raise
        hint = "if the row has a --name, pass --as-model with the model to run"
        raise UnknownNameError(f"{error}; {hint}") from error


def read_rerun(arguments: argparse.Namespace) -> Rerun:
    """Return what to run again, as arguments of `vlbench.evaluate`; no board is written.

    Raises UnknownNameError for an unknown row, and SpecError for a row that does not record how it
    was made.
    """
    row, notes = _find_row(arguments)
    _require_known_code(row, arguments)
    from vlbench.run.options import model_args  # imports torch

    model, overrides = split_arguments(row.model)
    given = options_of(arguments)
    model_arguments = {**model_args(overrides), **given.model_args}
    model_arguments.pop("dtype", None)
    options = {
        **{name: getattr(given, name) for name in GIVEN},
        "model_args": model_arguments,
        "params": row.task_params,
        "dtype": _read_fact(row, "provenance", "dtype", str),
        "batch_size": _read_fact(row, "run", "batch_size", int | None),
    }
    params = _read_fact(row, "provenance", "params", Mapping[str, Any])
    _read_fact(row, "provenance", "libraries", Mapping[str, Any])
    is_path = row_name(arguments.model) != arguments.model
    base = model if "revision" in params else folder_here(model)
    to_run = arguments.as_model or (arguments.model if is_path else pinned(base, params))
    return Rerun(row, to_run, options, notes)


def _find_row(arguments: argparse.Namespace) -> tuple[Result, list[str]]:
    """Return the row, and a note if its board comes with vlbench. Raises UnknownNameError."""
    file, name = Path(arguments.board), row_name(arguments.model)
    is_file = file.suffix == ".json"
    output, task = (file.parent, file.stem) if is_file else (arguments.output, arguments.board)
    folder = output if is_file else folder_of(output, name, task)
    notes = [lent_note(name)] if folder != output else []
    return named_row(folder, task, name, arguments.data, task_params(arguments.param)), notes


def _require_known_code(row: Result, arguments: argparse.Namespace) -> None:
    """Raise SpecError if the row names code that is not trusted, or a model on a server."""
    from vlbench.code.functions import names_file

    if names_file(row.model) and not arguments.trust:
        raise SpecError(f"{printed(row.model)} names code; if you trust it, pass --trust")
    if str(row.provenance.get("weights")).startswith("served:") and not arguments.as_model:
        why = "the weights are not known, so the row cannot be recomputed"
        hint = "--as-model openai:NAME@URL compares it with a server's current model"
        raise SpecError(f"{printed(row.model)} came from a server: {why}; {hint}")


def show(row: Result, again: Result, changes: Sequence[ScoreChange]) -> Answer:
    """Return a table of every score, the other differences, and the exit code."""
    answers = Counter(change.answer for change in changes)
    parts = [f"{answers[EQUAL]} of {len(row.scores)} scores are equal"]
    parts += [f"{answers[name]} {name}" for name in (WITHIN, NEW) if answers[name]]
    title = printed(f"{row.model} on {row.task}: {', '.join(parts)}")
    furthest = max(changes, key=lambda change: abs(change.difference), default=None)
    if furthest and furthest.difference:
        title += f"; largest difference {furthest.difference:+.3g}, {printed(_name(furthest))}"
    table = plain_table(["score", "board", "now", "difference", "answer"], [*map(_cells, changes)])
    problems = [f"differs: {line}" for line in _differences(row, again)]
    return Answer([title, table], problems, FAILED if answers[DIFFERENT] + answers[ABSENT] else 0)


def _read_fact(row: Result, part: str, name: str, kind: Any) -> Any:
    """Return a fact of a row. Raises SpecError if it is absent or of another type."""
    facts = getattr(row, part)
    if name not in facts:
        raise SpecError(
            f"the row does not record its {name}, so it cannot be rerun; run its task again"
        )
    try:
        return read(kind, facts[name])
    except Misfit as error:
        raise error.below(f"{row.model} on {row.task}", part, name) from None


def _cells(change: ScoreChange) -> list[str]:
    """Return the name of a score, both values ("-" for none), their difference, and the answer."""
    values = ["-" if one is None else f"{one.value:.6g}" for one in (change.board, change.now)]
    is_compared = change.answer not in {EQUAL, ABSENT, NEW}
    difference = f"{change.difference:+.3g}" if is_compared else "-"
    return [_name(change), *values, difference, change.answer]


def _name(change: ScoreChange) -> str:
    return score_name(change.score.metric, change.score.at)


def _differences(row: Result, again: Result) -> Iterator[str]:
    """Yield the differences between how a row and its rerun were made."""
    libraries = row.provenance["libraries"], again.provenance["libraries"]
    for names, before, now in (
        (SAME, row.provenance, again.provenance),
        (sorted({*libraries[0], *libraries[1]}), *libraries),
        (ROUNDING, row.run, again.run),
    ):
        for name in names:
            if before.get(name) != now.get(name):
                yield f"{name}: {before.get(name)} on the board, {now.get(name)} now"
