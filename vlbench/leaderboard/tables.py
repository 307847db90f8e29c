"""Boards and results as tables that people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

Row = Mapping[str, Any]


def board_tables(board: Row) -> list[Table]:
    """Return a table for each set of rows that may be compared, and one for rows without scores."""
    ok = [row for row in board["rows"] if row["status"] == "ok"]
    keys = list(dict.fromkeys(row["comparable"] for row in ok))
    title = f"{board['task']} (version {board['version']})"
    tables = []
    for i, key in enumerate(keys):
        part = f", not comparable with the others: set {i + 1}" if len(keys) > 1 else ""
        rows = [row for row in ok if row["comparable"] == key]
        tables.append(score_table(title + part, board["primary"], rows))
    rest = [row for row in board["rows"] if row["status"] != "ok"]
    return [*tables, *([reason_table(title, rest)] if rest else [])]


def score_table(title: str, primary: Row, rows: Sequence[Row]) -> Table:
    """Return rows by primary score, best first: interval, chance, highest floor, n, variants."""
    variants = _variants(primary, rows)
    table = _table(
        title, ["model", _name(primary), "95 % interval", "chance", "highest floor", "n"]
    )
    for name in variants:
        table.add_column(_spaced(name), justify="right", overflow="fold")
    scored = [(row, score) for row in rows if (score := _score(row, primary))]
    for row, score in sorted(scored, key=lambda pair: _rank(pair[1])):
        cells = (
            row["model"],
            number(score["value"], score["unit"]),
            _interval(score),
            number(score["chance"], score["unit"]),
            _floor(score),
            str(score["n"]) + (" (partial)" if _partial(row) else ""),
            *(_variant(row, primary, name) for name in variants),
        )
        _add_row(table, cells)
    for row in rows:
        if not _score(row, primary):
            _add_row(table, (row["model"], "-"))
    return table


def reason_table(title: str, rows: Sequence[Row]) -> Table:
    """Return the rows that have no scores, with why."""
    table = _table(f"{title}: without scores", ["model", "status", "why"], numbers=False)
    for row in rows:
        _add_row(table, (row["model"], row["status"], row["reason"]))
    return table


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Table:
    """Return a table of texts."""
    table = _table(title, columns, numbers=False)
    for row in rows:
        _add_row(table, row)
    return table


def number(value: float | None, unit: str = "fraction") -> str:
    """Return a number as people read it: a fraction in per cent with one decimal."""
    if value is None:
        return "-"
    return f"{100 * value:.1f} %" if unit == "fraction" else f"{value:.4g}"


def condition(value: str | float) -> str:
    """Return a condition of a score as people read it: a number in four digits."""
    return value if isinstance(value, str) else f"{value:.4g}"


def _table(title: str, columns: Sequence[str], *, numbers: bool = True) -> Table:
    table = Table(
        title=title or None, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for i, column in enumerate(columns):
        table.add_column(
            column, justify="right" if numbers and i else "left", overflow="fold", no_wrap=not i
        )
    return table


def _add_row(table: Table, cells: Sequence[str]) -> None:
    """Add texts as they are: a model's name has brackets, which rich would take for markup."""
    table.add_row(*(Text(cell) for cell in cells))


def _name(primary: Row) -> str:
    at = ", ".join(f"{k} {condition(v)}" for k, v in primary["at"].items())
    return f"{primary['metric']} ({at})" if at else str(primary["metric"])


def _score(row: Row, primary: Row) -> Row | None:
    wanted = (primary["metric"], primary["at"])
    return next((s for s in row["scores"] if (s["metric"], s["at"]) == wanted), None)


def _variants(primary: Row, rows: Sequence[Row]) -> list[str]:
    """Return the other metrics under the primary's conditions."""
    names = [s["metric"] for row in rows for s in row["scores"] if s["at"] == primary["at"]]
    return [name for name in dict.fromkeys(names) if name != primary["metric"]]


def _variant(row: Row, primary: Row, metric: str) -> str:
    same = [s for s in row["scores"] if s["metric"] == metric and s["at"] == primary["at"]]
    return number(same[0]["value"], same[0]["unit"]) if same else "-"


def _rank(score: Row) -> float:
    value: float = score["value"]
    return -value if score["higher_is_better"] else value


def _interval(score: Row) -> str:
    if not score["ci95"]:
        return "-"
    low, high = (number(x, score["unit"]).removesuffix(" %") for x in score["ci95"])
    return f"{low} to {high}"


def _floor(score: Row) -> str:
    """Return the floor that is hardest to beat, and its name."""
    if not score["floors"]:
        return "-"
    pick = max if score["higher_is_better"] else min
    name, value = pick(score["floors"].items(), key=lambda floor: floor[1])
    return f"{number(value, score['unit'])} {_spaced(name)}"


def _spaced(name: str) -> str:
    """Return a name in words, so that a narrow terminal breaks it between them."""
    return name.replace("_", " ")


def _partial(row: Row) -> bool:
    return bool(row["counts"].get("expected", 0) > row["counts"].get("n", 0))
