"""Boards and results as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from vlbench.boards import Board
from vlbench.leaderboard.texts import printed
from vlbench.results import At, Result, Score, matching

Primary = Mapping[str, Any]


def board_tables(
    board: Board, leading: Mapping[str, Mapping[str, str]] | None = None
) -> list[Table]:
    """Return a table for each set of comparable rows, and one for the rows without scores.

    `leading` says of each set how its models stand to the best.
    """
    ok = [row for row in board.results if row.status == "ok"]
    keys = list(dict.fromkeys(row.comparable for row in ok))
    title = f"{board.task} (version {board.version})"
    tables = []
    for i, key in enumerate(keys):
        part = f", not comparable with the others: set {i + 1}" if len(keys) > 1 else ""
        rows = [row for row in ok if row.comparable == key]
        tables.append(score_table(title + part, board.primary, rows, (leading or {}).get(key)))
    rest = [row for row in board.results if row.status != "ok"]
    return [*tables, *([reason_table(title, rest)] if rest else [])]


def score_table(
    title: str,
    primary: Primary,
    results: Sequence[Result],
    leading: Mapping[str, str] | None = None,
) -> Table:
    """Return results by primary score, best first, and those without one at the end.

    The columns: the score, its interval, chance, the highest floor, n, and the other metrics under
    the conditions of the primary score. `leading` says how each model stands to the best, where
    that was tested, in a column of its own.
    """
    variants = _variants(primary, results)
    columns = [
        "model",
        score_name(primary["metric"], primary["at"]),
        "95 % interval",
        "chance",
        "highest floor",
        "n",
    ]
    table = _table(title, [*columns, *(["vs leader"] if leading else [])])
    for name in variants:
        table.add_column(Text(printed(spaced(name))), justify="right", overflow="fold")
    found = [(result, matching(result.scores, primary)) for result in results]
    scored = [(result, scores[0]) for result, scores in found if scores]
    for result, score in sorted(scored, key=lambda pair: _rank(pair[1])):
        cells = (
            result.model,
            number(score.value, score.unit),
            _interval(score),
            number(score.chance, score.unit),
            _floor(score),
            str(score.n) + (" (partial)" if result.is_partial else ""),
            *([leading.get(result.model, "-")] if leading else []),
            *(_variant(result, primary, name) for name in variants),
        )
        _add_row(table, cells)
    for result, scores in found:
        if not scores:
            _add_row(table, (result.model, "-"))
    return table


def reason_table(title: str, results: Sequence[Result]) -> Table:
    """Return the results that have no scores, and the reason for each."""
    table = _table(f"{title}: without scores", ["model", "status", "why"], numbers=False)
    for result in results:
        _add_row(table, (result.model, result.status, result.reason))
    return table


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Table:
    """Return a table of texts."""
    table = _table(title, columns, numbers=False)
    for row in rows:
        _add_row(table, row)
    return table


def number(value: float | None, unit: str = "fraction") -> str:
    """Return a number for a table: a fraction as a percentage with one decimal."""
    if value is None:
        return "-"
    return f"{100.0 * value:.1f} %" if unit == "fraction" else f"{value:.4g}"


def probability(p: float) -> str:
    """Return a p-value for a table."""
    return "p <0.001" if p < 0.001 else f"p {p:.3f}"


def condition(value: str | float) -> str:
    """Return the value of a condition for a table: a number with four significant digits."""
    return value if isinstance(value, str) else f"{value:.4g}"


def score_name(metric: str, at: At) -> str:
    """Return what a score is called in a table: its metric, and the conditions in brackets."""
    words = ", ".join(f"{name} {condition(value)}" for name, value in at.items())
    return f"{metric} ({words})" if words else metric


def spaced(name: str) -> str:
    """Return a name with spaces for underscores, so that a narrow terminal can break it."""
    return name.replace("_", " ")


def _table(title: str, columns: Sequence[str], *, numbers: bool = True) -> Table:
    table = Table(
        title=Text(printed(title), "table.title") if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for i, column in enumerate(columns):
        table.add_column(
            Text(printed(column)),
            justify="right" if numbers and i else "left",
            overflow="fold",
            no_wrap=not i,
        )
    return table


def _add_row(table: Table, cells: Sequence[str]) -> None:
    """Add texts as they are: the brackets in a model's name are no markup of rich."""
    table.add_row(*(Text(printed(cell)) for cell in cells))


def _variants(primary: Primary, results: Sequence[Result]) -> list[str]:
    """Return the other metrics under the primary score's conditions."""
    names = [s.metric for result in results for s in result.scores if s.at == primary["at"]]
    return [name for name in dict.fromkeys(names) if name != primary["metric"]]


def _variant(result: Result, primary: Primary, metric: str) -> str:
    same = matching(result.scores, {"metric": metric, "at": primary["at"]})
    return number(same[0].value, same[0].unit) if same else "-"


def _rank(score: Score) -> float:
    return -score.value if score.higher_is_better else score.value


def _interval(score: Score) -> str:
    if not score.ci95:
        return "-"
    low, high = (number(x, score.unit).removesuffix(" %") for x in score.ci95)
    return f"{low} to {high}"


def _floor(score: Score) -> str:
    """Return the floor that is hardest to beat, and its name."""
    if not score.floors:
        return "-"
    pick = max if score.higher_is_better else min
    name, value = pick(score.floors.items(), key=lambda floor: floor[1])
    return f"{number(value, score.unit)} {spaced(name)}"
