"""Summaries: a file for each group of tasks, made from the boards of its tasks alone.

Matrices of a data set that no group compares make a group of their own.

A summary holds means over the tasks. Where rows keep matrices (the artifact `rdm`), it holds the
similarities of the models instead.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from vlbench.boards import SCHEMA, Board
from vlbench.errors import SpecError
from vlbench.files import write_whole
from vlbench.leaderboard.figures.looks import Look
from vlbench.leaderboard.figures.similarity_figures import draw_similarities
from vlbench.leaderboard.means import mean_rows
from vlbench.leaderboard.members import joined, keeps_matrices
from vlbench.leaderboard.rows import publishable
from vlbench.leaderboard.similarities import (
    PRIMARY,
    left_out_rows,
    similarities,
    similarity_rows,
)

# How the group of the matrices of one data set ends that no file of a group names.
OWN = "_similarity"


def with_matrices(
    boards: Mapping[str, Board], groups: Mapping[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    """Return groups, and one for each data set whose matrices no group compares.

    Such a group is named after its first task, `rsa_mine_similarity`. It has the tasks whose rows
    keep matrices of the same data, and two of these rows or more.
    """
    grouped = {task for tasks in groups.values() for task in tasks}
    alone: dict[str, dict[str, int]] = {}
    for name in sorted(set(boards) - grouped):
        kept = publishable(boards[name].results).values()
        data = Counter(str(row.provenance.get("data")) for row in kept if "rdm" in row.artifacts)
        for one, count in data.most_common(1):
            alone.setdefault(one, {})[name] = count
    own = {f"{next(iter(of))}{OWN}": list(of) for of in alone.values() if sum(of.values()) > 1}
    return {**own, **groups}


def build_summaries(
    output: Path,
    there: Mapping[str, Board],
    groups: Mapping[str, Sequence[str]],
    looks: Mapping[str, Look],
) -> list[Path]:
    """Write `summaries/<group>.json` for each group, and return the files, with their figures.

    A group of means needs a board for every task, and a model with a publishable row on each.
    Without one, its summary is removed, as is that of a data set's own group that is none any more.
    Raises SpecError where the tasks of a group differ in their
    primary scores.
    """
    written: list[Path] = []
    _remove_old(output, groups)
    for group, tasks in sorted(groups.items()):
        boards = [there[task] for task in tasks if task in there]
        file = output / "summaries" / f"{group}.json"
        if any(map(keeps_matrices, boards)):
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


def _remove_old(output: Path, groups: Mapping[str, Sequence[str]]) -> None:
    """Remove the summary and the figures of each data set's own group that there is no more."""
    for file in output.glob(f"summaries/*{OWN}.json"):
        if file.stem not in groups and (output / f"{file.stem.removesuffix(OWN)}.json").exists():
            file.unlink()
            draw_similarities(output / "figures", file.stem, [], None)


def _write_similarities(
    file: Path, group: str, boards: Sequence[Board], looks: Mapping[str, Look]
) -> list[Path]:
    """Write the similarities of a group's models and the figures of them; return the files."""
    output = file.parent.parent
    members, left_out = joined(output, boards)
    if len(members) < 2:
        left_out |= dict.fromkeys((m.name for m in members), "no other model to compare it with")
    found = similarities(members) if len(members) > 1 else None
    rows = similarity_rows(members, found) if found else ()
    rows = chain(rows, left_out_rows(left_out))
    write_whole(file, _content(group, boards, rows, PRIMARY))
    names = [(member.name, looks[member.model]) for member in members] if found else []
    values = found.pearson if found else None
    return [file, *draw_similarities(output / "figures", group, names, values)]


def _content(
    group: str,
    boards: Sequence[Board],
    rows: Iterable[Mapping[str, Any]],
    primary: Mapping[str, Any],
) -> bytes:
    """Return a summary's file. Each row becomes text on its own: as objects, all take far more."""
    summary = {
        "schema": SCHEMA,
        "task": group,
        "version": max(board.version for board in boards),
        "versions": {board.task: board.version for board in boards},
        "primary": primary,
        "rows": [],
    }
    whole = json.dumps(summary, indent=1).removesuffix("]\n}")
    texts = (json.dumps(row, indent=1, allow_nan=False).replace("\n", "\n  ") for row in rows)
    inside = ",\n  ".join(texts)
    return (f"{whole}\n  {inside}\n ]\n}}\n" if inside else f"{whole}]\n}}\n").encode()
