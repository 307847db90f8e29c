"""What boards hold of a model on a task, or why they hold nothing that counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from vlbench.boards import Board, board_file, read_board
from vlbench.catalog.specs import TaskSpec
from vlbench.leaderboard.rows import publishable
from vlbench.results import Result

Boards = Mapping[str, Board | None]


class Lack(NamedTuple):
    """A row or a score that is not there, and why."""

    model: str
    task: str
    why: str


def read_boards(output: Path, specs: Iterable[TaskSpec]) -> dict[str, Board | None]:
    """Return the board of each task, and the summary of each group; None where there is no file."""
    return {
        spec.name: read_board(board_file(output / "summaries" if spec.group else output, spec.name))
        for spec in specs
    }


def counted_row(board: Board | None, spec: TaskSpec, model: str) -> Result | Lack:
    """Return a model's row where it may be published and is of the task's version."""
    if board is None:
        return Lack(model, spec.name, "no board")
    if not spec.group and board.version != spec.version:
        why = f"the board is of version {board.version}, the task of version {spec.version}"
        return Lack(model, spec.name, why)
    found = publishable(board.results).get(model)
    rows = [row for row in board.results if row.model == model]
    return found or Lack(model, spec.name, _why_not(rows))


def _why_not(rows: Sequence[Result]) -> str:
    """Return why none of a model's rows may be published."""
    ok = [row for row in rows if row.status == "ok"]
    if not ok:
        return ", ".join(f"{row.status}: {row.reason}" for row in rows) or "no row"
    if any(row.is_partial for row in ok):
        return "a row of incomplete data"
    if len(ok) > 1:
        return f"{len(ok)} rows, and nothing says which one counts"
    return "a row of random weights"
