"""`vlbench rerun`: a board's row computed again from what it says of its making, and compared."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.catalog.library_names import pinned
from vlbench.commands.answer import Answer
from vlbench.commands.parser import data_dirs
from vlbench.errors import SpecError, printed
from vlbench.leaderboard.rows import named_row
from vlbench.leaderboard.tables import plain_table, score_name
from vlbench.plain import Misfit, read
from vlbench.planning.functions import names_file
from vlbench.planning.options import model_args
from vlbench.results import Result, Score

# What the same row has the same, and what may move last digits, and so an item at a boundary.
SAME = ("weights", "data", "adapter", "companions")
MOVES = ("device", "hardware", "threads")

# What the command line says of this run, not the row.
GIVEN = ("include_path", "device", "offline", "trust")


class Asked(NamedTuple):
    """The row, the model that it names, and the options that it was run with."""

    row: Result
    model: str
    options: Mapping[str, Any]


def asked(arguments: argparse.Namespace, *, cache_dir: Path | None) -> Asked:
    """Return what to run again, as `vlbench.evaluate` takes it.

    No board is written. Raises UnknownNameError where there is no such row, and SpecError for one
    that does not say how it was made.
    """
    file = Path(arguments.board)
    is_file = file.suffix == ".json"
    folder, task = (file.parent, file.stem) if is_file else (arguments.output, arguments.board)
    row = named_row(folder, task, arguments.model)
    if names_file(row.model) and not arguments.trust:
        raise SpecError(f"{printed(row.model)} names code; if you know what it does, pass --trust")
    model, _, shown = row.model.removesuffix("]").partition("[")
    overrides = model_args(shown) | model_args(arguments.model_args)
    overrides.pop("dtype", None)
    given = {name: getattr(arguments, name) for name in GIVEN}
    options = {
        **given,
        "cache_dir": cache_dir,
        "data_dir": data_dirs(arguments.data_dir),
        "model_args": overrides,
        "dtype": _recorded(row, "provenance", "dtype", str),
        "batch_size": _recorded(row, "run", "batch_size", int | None),
    }
    params = _recorded(row, "provenance", "params", Mapping[str, Any])
    _recorded(row, "provenance", "libraries", Mapping[str, Any])
    return Asked(row, arguments.as_model or pinned(model, params), options)


def compared(row: Result, results: Sequence[Result]) -> Answer:
    """Return both values of every score, what else differs, and 1 if a score does."""
    # A group of tasks may have the name of a board.
    again = next((result for result in results if result.task == row.task), None)
    if again is None:
        return Answer(problems=[f"vlbench: the data of {row.task} are not here"], code=1)
    if again.status != "ok":
        return Answer(problems=[f"vlbench: it is {again.status} now: {again.reason}"], code=1)
    first, second = _by_name(row.scores), _by_name(again.scores)
    cells = [
        [name, _value(first.get(name)), _value(second.get(name)), _gap(first, second, name)]
        for name in dict.fromkeys([*first, *second])
    ]
    equal = sum(cell[-1] == "equal" for cell in cells)
    title = printed(f"{row.model} on {row.task}: {equal} of {len(cells)} scores are equal")
    table = plain_table(["score", "board", "now", "difference"], cells)
    problems = [f"differs: {line}" for line in _other_making(row, again)]
    return Answer([title, table], problems, code=int(equal < len(cells)))


def _recorded(row: Result, part: str, name: str, kind: Any) -> Any:
    """Return what a row says of its making. Raises SpecError where it does not, or not so."""
    facts = getattr(row, part)
    if name not in facts:
        raise SpecError(
            f"the row does not record its {name}, so it cannot be run again as it was; run its "
            "task anew"
        )
    try:
        return read(kind, facts[name])
    except Misfit as error:
        raise error.below(f"{row.model} on {row.task}", part, name) from None


def _by_name(scores: Sequence[Score]) -> dict[str, Score]:
    named = {score_name(score.metric, score.at): score for score in scores}
    if len(named) < len(scores):
        raise SpecError("two scores of a row have the same name and conditions")
    return named


def _value(score: Score | None) -> str:
    return "-" if score is None else f"{score.value:.6g}"


def _gap(first: Mapping[str, Score], second: Mapping[str, Score], name: str) -> str:
    if name not in first or name not in second:
        return "absent"
    gap = second[name].value - first[name].value
    return "equal" if gap == 0 else f"{gap:+.3g}"


def _other_making(row: Result, again: Result) -> Iterator[str]:
    """Yield what a row and its rerun were made of that is not the same."""
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
