"""Summaries: a file for each group of tasks, made from the boards of its tasks alone.

A summary holds means over the tasks. Where rows keep matrices (the artifact `rdm`), it holds the
similarities of the models instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlbench.boards import SCHEMA, Board, read_board
from vlbench.errors import SpecError
from vlbench.files import write_whole
from vlbench.leaderboard.figures.looks import Look
from vlbench.leaderboard.figures.similarity_figures import draw_similarities
from vlbench.leaderboard.means import mean_rows
from vlbench.leaderboard.members import joined
from vlbench.leaderboard.similarities import PRIMARY, left_out_rows, similarity_rows


def build_summaries(
    output: Path, groups: Mapping[str, Sequence[str]], looks: Mapping[str, Look]
) -> list[Path]:
    """Write `summaries/<group>.json` for each group, and return the files, with their figures.

    A group of means needs a board for every task, and a model with a publishable row on each.
    Without one, its summary is removed. Raises SpecError where the tasks of a group differ in their
    primary scores.
    """
    written: list[Path] = []
    for group, tasks in sorted(groups.items()):
        found = [read_board(output / f"{task}.json") for task in tasks]
        boards = [board for board in found if board]
        file = output / "summaries" / f"{group}.json"
        if any("rdm" in row.artifacts for board in boards for row in board.results):
            written += _write_similarities(file, group, boards, looks)
            continue
        rows = mean_rows(boards) if boards and len(boards) == len(tasks) else []
        if not rows:
            file.unlink(missing_ok=True)
            continue
        if any(board.primary != boards[0].primary for board in boards):
            raise SpecError(f"{group}: its tasks have different primary scores")
        write_whole(file, _content(group, boards, rows, boards[0].primary))
        written.append(file)
    return written


def _write_similarities(
    file: Path, group: str, boards: Sequence[Board], looks: Mapping[str, Look]
) -> list[Path]:
    """Write the similarities of a group's models and the figures of them; return the files."""
    output = file.parent.parent
    members, left_out = joined(output, boards)
    if len(members) < 2:
        left_out |= dict.fromkeys((m.name for m in members), "no other model to compare it with")
    rows = similarity_rows(members) if len(members) > 1 else []
    rows += left_out_rows(left_out)
    write_whole(file, _content(group, boards, rows, PRIMARY))
    return [file, *draw_similarities(output / "figures", group, members, looks)]


def _content(
    group: str,
    boards: Sequence[Board],
    rows: Sequence[Mapping[str, Any]],
    primary: Mapping[str, Any],
) -> bytes:
    summary = {
        "schema": SCHEMA,
        "task": group,
        "version": max(board.version for board in boards),
        "versions": {board.task: board.version for board in boards},
        "primary": primary,
        "rows": rows,
    }
    return (json.dumps(summary, indent=1, allow_nan=False) + "\n").encode()
