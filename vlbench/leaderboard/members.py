"""The matrices of dissimilarities that rows keep, and which of them can be compared.

Rows of several boards are compared with each other. A model that stands on two of the boards has
its plain name for the first board. For the other, the words follow that only that task's name has:
`clip-rn50 (text)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlbench.boards import Board
from vlbench.errors import DataError
from vlbench.leaderboard.artifacts import read_table, read_tensor
from vlbench.leaderboard.rows import publishable
from vlbench.results import Result


class Member(NamedTuple):
    """One model in a comparison, and the classes that its matrix is over.

    `name` is `model`, or longer where the model stands on two boards. The matrix is read where it
    is needed: hundreds of 1,000 classes are gigabytes.
    """

    name: str
    model: str
    read_matrix: Callable[[], NDArray[np.float32]]
    classes: list[str]
    comparable: str


def keeps_matrices(board: Board) -> bool:
    """Return whether a row of a board keeps a matrix."""
    return any("rdm" in row.artifacts for row in board.results)


def joined(output: Path, boards: Sequence[Board]) -> tuple[list[Member], dict[str, str]]:
    """Return the models that can be compared, and for each other publishable row why it cannot.

    On each board, the rows with the most frequent `comparable` are taken. All matrices must be over
    the same classes as the first.
    """
    members: list[Member] = []
    left_out: dict[str, str] = {}
    for board in boards:
        rows = sorted(publishable(board.results).items())
        common = Counter(row.comparable for _, row in rows).most_common(1)
        for model, row in rows:
            name = _name(model, board.task, [*(m.name for m in members), *left_out], boards[0].task)
            found = _member(output, name, row)
            if isinstance(found, str):
                left_out[name] = found
            elif row.comparable != common[0][0]:
                left_out[name] = f"not comparable with the most rows of {board.task}"
            elif members and found.classes != members[0].classes:
                left_out[name] = f"its matrix is over other classes than that of {members[0].name}"
            else:
                members.append(found)
    return members, left_out


def _name(model: str, task: str, taken: Sequence[str], first: str) -> str:
    others = [word for word in task.split("_") if word not in first.split("_")]
    return f"{model} ({' '.join(others) or task})" if model in taken else model


def _member(output: Path, name: str, row: Result) -> Member | str:
    """Return a row's matrix and classes, or why they cannot be read."""
    try:
        matrix = read_tensor(output, row, "rdm")
        classes = [one["name"] for one in read_table(output, row, "classes", ["name"])]
    except DataError as error:
        return str(error)
    if matrix.shape != (len(classes) * (len(classes) - 1) // 2,):
        return f"its matrix of shape {list(matrix.shape)} is not that of {len(classes)} classes"
    return Member(
        name, row.model, partial(read_tensor, output, row, "rdm"), classes, row.comparable
    )
