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
from vlbench.results import Result, Score
from vlbench.schema import Misfit, read

# Facts of a run that may change a row by rounding.
MOVES = ("device", "hardware", "threads")

# Options of this command line that are not facts of the row.
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
    """The row, its model, the options that it was run with, and notes."""

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
    file = Path(arguments.board)
    is_file = file.suffix == ".json"
    output, task = (file.parent, file.stem) if is_file else (arguments.output, arguments.board)
    name = row_name(arguments.model)
    folder = output if is_file else folder_of(output, name, task)
    notes = [lent_note(name)] if folder != output else []
    row = named_row(folder, task, name, arguments.data, task_params(arguments.param))
    from vlbench.code.functions import names_file
    from vlbench.run.options import model_args  # imports torch

    if names_file(row.model) and not arguments.trust:
        raise SpecError(f"{printed(row.model)} names code; if you trust it, pass --trust")
    if str(row.provenance.get("weights")).startswith("served:") and not arguments.as_model:
        why = "the weights are not known, so the row cannot be recomputed"
        hint = "--as-model openai:NAME@URL compares it with a server's current model"
        raise SpecError(f"{printed(row.model)} came from a server: {why}; {hint}")
    model, overrides = split_arguments(row.model)
    typed = options_of(arguments)
    arguments_of_model = {**model_args(overrides), **typed.model_args}
    arguments_of_model.pop("dtype", None)
    options = {
        **{name: getattr(typed, name) for name in GIVEN},
        "model_args": arguments_of_model,
        "params": row.task_params,
        "dtype": _read_fact(row, "provenance", "dtype", str),
        "batch_size": _read_fact(row, "run", "batch_size", int | None),
    }
    params = _read_fact(row, "provenance", "params", Mapping[str, Any])
    _read_fact(row, "provenance", "libraries", Mapping[str, Any])
    given_path = arguments.model if name != arguments.model else ""
    base = model if "revision" in params else folder_here(model)
    again = arguments.as_model or given_path or pinned(base, params)
    return Rerun(row, again, options, notes)


def show(row: Result, again: Result, changes: Sequence[ScoreChange]) -> Answer:
    """Return a table of every score, the other differences, and the exit code."""
    cells = [
        [
            _name(change),
            _value(change.board),
            _value(change.now),
            _difference(change),
            change.answer,
        ]
        for change in changes
    ]
    answers = Counter(change.answer for change in changes)
    parts = [f"{answers[EQUAL]} of {len(row.scores)} scores are equal"]
    parts += [f"{answers[name]} {name}" for name in (WITHIN, NEW) if answers[name]]
    title = printed(f"{row.model} on {row.task}: {', '.join(parts)}")
    furthest = max(changes, key=lambda change: abs(change.difference), default=None)
    if furthest and furthest.difference:
        title += f"; largest difference {furthest.difference:+.3g}, {printed(_name(furthest))}"
    table = plain_table(["score", "board", "now", "difference", "answer"], cells)
    problems = [f"differs: {line}" for line in _other_making(row, again)]
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


def _name(change: ScoreChange) -> str:
    return score_name(change.score.metric, change.score.at)


def _value(score: Score | None) -> str:
    return "-" if score is None else f"{score.value:.6g}"


def _difference(change: ScoreChange) -> str:
    return "-" if change.answer in {EQUAL, ABSENT, NEW} else f"{change.difference:+.3g}"


def _other_making(row: Result, again: Result) -> Iterator[str]:
    """Yield the differences between the provenance of a row and of its rerun."""
    old, new = row.provenance, again.provenance
    for key in SAME:
        if old.get(key) != new.get(key):
            yield f"{key}: {old.get(key)} on the board, {new.get(key)} now"
    before, now = old["libraries"], new["libraries"]
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield f"{name}: {before.get(name)} on the board, {now.get(name)} now"
    for key in MOVES:
        if row.run.get(key) != again.run.get(key):
            yield f"{key}: {row.run.get(key)} on the board, {again.run.get(key)} now"
