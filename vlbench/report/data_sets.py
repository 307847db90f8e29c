"""Names of the data of a board's rows, and groups of rows with the same data.

Every view that groups or selects the rows of a board uses this module.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlbench.boards.board import board_file, read_board
from vlbench.catalog.data_sets import data_sets
from vlbench.errors import UnknownNameError, unknown
from vlbench.report.rows import comparable_sets, publishable
from vlbench.report.texts import few, one_line
from vlbench.results import Result
from vlbench.system.files import safe_name

# Digits of a digest that distinguish two data sets with the same name.
DIGITS = 6

# The most models by which a set of comparable rows is named.
MOST_MODELS = 2

# Loader and name of the data of rows that record neither, such as rows of summaries.
UNKNOWN = "unknown"


def by_data(rows: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the ok rows by the name of their data, in the order of each data set's first row.

    The name is that of the folder or of the published data set; if a row records neither, it is the
    name of the loader. If two data sets share a name, a digest is added. Comparable rows share
    their data.
    """
    same: dict[str, list[Result]] = {}
    for comparable in comparable_sets(rows).values():
        key = str(comparable[0].provenance.get("data", ""))
        same.setdefault(key, []).extend(comparable)
    names = {key: _name(group) for key, group in same.items()}
    often = Counter(names.values())
    return {
        f"{names[key]} {_short(key)}" if often[names[key]] > 1 else names[key]: group
        for key, group in same.items()
    }


def data_names(rows: Sequence[Result]) -> dict[str, str]:
    """Return the name of the data of each set of comparable rows, by `comparable`."""
    return {row.comparable: name for name, same in by_data(rows).items() for row in same}


def set_names(rows: Sequence[Result]) -> dict[str, str]:
    """Return the name of each set of comparable rows, by `comparable`; empty for a single set.

    It is the name of the data, with the parameters that the run set, or the first models if
    regions, companions or other parameters make several sets of the same data. Sets that would
    still share a name are named by digests.
    """
    data = data_names(rows)
    if len(data) < 2:
        return dict.fromkeys(data, "")
    names = {
        key: _set_name("" if data[key] == UNKNOWN else data[key], same)
        if [*data.values()].count(data[key]) > 1
        else data[key]
        for key, same in comparable_sets(rows).items()
    }
    often = Counter(names.values())
    return {k: f"{data[k]} {_short(k)}" if often[name] > 1 else name for k, name in names.items()}


def _set_name(data: str, rows: Sequence[Result]) -> str:
    models = [row.model for row in rows if not row.is_control] or [row.model for row in rows]
    given = [f"{key}={json.dumps(value)}" for key, value in rows[0].task_params.items()]
    which = ", ".join(given) or few(models, MOST_MODELS)
    return ": ".join(filter(None, (data, which)))


def rows_of(rows: Sequence[Result], task: str, data: str = "") -> list[Result]:
    """Return the ok rows of the named data; without a name, of the only data set.

    Raises UnknownNameError, which lists the names, for an unknown name, and for several data sets
    if none is named.
    """
    sets = by_data(rows)
    if data and data not in sets:
        raise unknown(f"data of {task}", data, sets)
    if not data and len(sets) > 1:
        raise UnknownNameError(f"{task} has rows of {len(sets)} data sets; {_way_out(sets)}")
    return sets[data] if data else [row for group in sets.values() for row in group]


def row_of(
    rows: Sequence[Result],
    task: str,
    model: str,
    data: str = "",
    params: Mapping[str, Any] | None = None,
) -> Result:
    """Return a model's ok row. Raises UnknownNameError for no such row or several.

    With `params`, it is the row whose run set them; without, of several rows the one whose run set
    none.
    """
    within = rows_of(rows, task, data) if data else rows
    matches = [row for row in within if row.model == model]
    ok = [row for row in matches if row.status == "ok"]
    if matches and not ok:
        why = matches[0].reason or "no reason given"
        raise UnknownNameError(f"{model} has no scores on {task}: {matches[0].status} ({why})")
    if not matches:
        raise unknown("model with scores", model, {row.model for row in within})
    if params or len(ok) > 1:
        same = [row for row in ok if row.task_params == (params or {})]
        if params and not same:
            choices = "; ".join(", ".join(row.marks) or "the task's own" for row in ok)
            raise UnknownNameError(f"{model} has no row with these parameters; it has {choices}")
        ok = same or ok
    if len(ok) > 1:
        names = data_names(rows)
        sets = {names[row.comparable] for row in ok}
        why = "their parameters or regions differ; move one of them to another folder"
        why = _way_out(sets) if len(sets) > 1 else why
        raise UnknownNameError(f"{model} has {len(ok)} rows on {task}: {why}")
    return ok[0]


def named_row(
    output: Path, task: str, model: str, data: str = "", params: Mapping[str, Any] | None = None
) -> Result:
    """Return a model's ok row on a task's board. Raises UnknownNameError as `row_of` does."""
    board = read_board(board_file(output, task))
    if board is None:
        raise unknown(f"board in {output}", task, {file.stem for file in output.glob("*.json")})
    return row_of(board.results, task, model, data, params)


def figure_names(rows: Sequence[Result]) -> dict[str, Result]:
    """Return the ok rows by the beginning of the names of their figure files."""
    ok, names = [row for row in rows if row.status == "ok"], set_names(rows)
    often = Counter(row.model for row in ok)
    return {
        safe_name(f"{r.model}_{names[r.comparable]}" if often[r.model] > 1 else r.model): r
        for r in ok
    }


def published_by_data(rows: Sequence[Result]) -> dict[str, dict[str, Result]]:
    """Return the publishable rows by the name of their data, then by model."""
    return {name: good for name, group in by_data(rows).items() if (good := publishable(group))}


def loader_of(row: Result) -> str:
    """Return the name of the loader of a row's data; `unknown` if the row does not record it."""
    return next(iter(str(row.provenance.get("data", "")).split()), UNKNOWN)


def _name(rows: Sequence[Result]) -> str:
    """Return the first name of data that the rows record, or the name of their loader."""
    names = (str(row.provenance.get("data_name", "")) for row in rows)
    loader = loader_of(rows[0])
    published = data_sets().get(loader)
    of_loader = published.name if published else loader.rpartition(":")[2]
    return one_line(next(filter(None, names), of_loader))


def _way_out(names: Collection[str]) -> str:
    return f"give --data, or in Python data=, one of {', '.join(sorted(names))}"


def _short(digest: str) -> str:
    return digest.rpartition(":")[2][:DIGITS]
