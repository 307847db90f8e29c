"""Builds the summaries and figures that `vlbench leaderboard build` writes."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np

from vlbench.boards.board import (
    SCHEMA,
    Board,
    board_digest,
    board_file,
    folder_boards,
    read_board,
)
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.specs import TaskSpec
from vlbench.drawing.looks import Look, looks
from vlbench.errors import SpecError
from vlbench.report.data_sets import published_by_data
from vlbench.report.figures.figures import draw_figures
from vlbench.report.figures.task_figures import Figures, draw_task_figures
from vlbench.report.rows import matrices_of, publishable
from vlbench.report.table import title_of
from vlbench.results import Result, Score, matching, score_row
from vlbench.system.files import write_whole

# Suffix of the group of a data set's matrices if no task file defines that group.
OWN = "_similarity"


def mean_rows(boards: Sequence[Board]) -> list[dict[str, Any]]:
    """Return a row for each model that has a publishable row on every board.

    A row has a score for each metric and conditions that the model has on every board: the mean,
    with the standard error of arXiv:2104.08313 (population standard deviation / sqrt(tasks)). The
    list is empty if a board has several data sets, since it is unknown which of them belong
    together.
    """
    if any(len(published_by_data(board.results)) > 1 for board in boards):
        return []
    tables = [publishable(board.results) for board in boards]
    shared = set(tables[0]).intersection(*tables[1:])
    return [_mean_row(model, [table[model] for table in tables]) for model in sorted(shared)]


def _mean_row(model: str, results: Sequence[Result]) -> dict[str, Any]:
    keys = [{"metric": score.metric, "at": score.at} for score in results[0].scores]
    scores = [[matching(result.scores, key) for result in results] for key in keys]
    joined = json.dumps([result.comparable for result in results])
    return {
        "model": model,
        "status": "ok",
        "comparable": "sha256:" + hashlib.sha256(joined.encode()).hexdigest(),
        "scores": [score_row(_mean([same[0] for same in tasks])) for tasks in scores if all(tasks)],
        "counts": {"n": len(results), "expected": len(results)},
        **({"provenance": {"control": True}} if results[0].is_control else {}),
    }


def _mean(scores: Sequence[Score]) -> Score:
    """Return the mean of scores of the same metric and conditions, one per task."""
    first, values = scores[0], [score.value for score in scores]
    chances = [score.chance for score in scores if score.chance is not None]
    floors = set(first.floors).intersection(*(score.floors for score in scores))
    return Score(
        metric=first.metric,
        value=fmean(values),
        n=len(values),
        at=first.at,
        stderr=pstdev(values) / len(values) ** 0.5,
        chance=fmean(chances) if len(chances) == len(scores) else None,
        floors={name: fmean(score.floors[name] for score in scores) for name in sorted(floors)},
        draws=values,
        unit=first.unit,
        higher_is_better=first.higher_is_better,
        range=first.range,
        no_chance=first.no_chance,
    )


def with_matrices(
    boards: Mapping[str, Board], groups: Mapping[str, Sequence[str]]
) -> dict[str, Sequence[str]]:
    """Return the groups, and a further group for each data set whose matrices no group compares.

    The further group is named after its first task (`rsa_mine_similarity`). It contains the tasks
    whose rows keep matrices of the same data, and exists if at least two rows do.
    """
    grouped = {task for tasks in groups.values() for task in tasks}
    alone: dict[tuple[str, str], dict[str, int]] = {}
    for name in sorted(set(boards) - grouped):
        by_name = published_by_data(boards[name].results).values()
        kept = [row for group in by_name for row in group.values()]
        matrix = matrices_of(boards[name])
        data = Counter(str(row.provenance.get("data")) for row in kept if matrix in row.artifacts)
        for key, count in data.most_common(1):
            alone.setdefault((matrix, key), {})[name] = count
    further = {f"{next(iter(of))}{OWN}": list(of) for of in alone.values() if sum(of.values()) > 1}
    return {**further, **groups}


def build_summaries(
    output: Path,
    by_task: Mapping[str, Board],
    groups: Mapping[str, Sequence[str]],
    looks: Mapping[str, Look],
    specs: Mapping[str, TaskSpec] | None = None,
) -> list[Path]:
    """Write `summaries/<group>.json` for each group; return the files and their figures.

    A group of means needs a board for every task, and a model with a publishable row on each board;
    otherwise its summary is removed. The summary of a data set's further group is removed if the
    group no longer exists. Raises SpecError if the tasks of a group differ in their primary scores.
    """
    written: list[Path] = []
    _remove_old(output, groups)
    for group, tasks in sorted(groups.items()):
        boards = [by_task[task] for task in tasks if task in by_task]
        file = output / "summaries" / f"{group}.json"
        if any(map(matrices_of, boards)):
            title = title_of(group, (specs or {}).get(group))
            written += _write_similarities(file, group, title, boards, looks)
            continue
        rows = mean_rows(boards) if boards and len(boards) == len(tasks) else []
        if not rows:
            file.unlink(missing_ok=True)
            continue
        if any(board.primary != boards[0].primary for board in boards):
            raise SpecError(f"{group}: its tasks have different primary scores")
        write_whole(file, _content(file, boards, rows, boards[0].primary))
        written.append(file)
    return written


def _remove_old(output: Path, groups: Mapping[str, Sequence[str]]) -> None:
    """Remove the summaries and figures of the groups of data sets that no longer exist."""
    for file in output.glob(f"summaries/*{OWN}.json"):
        if file.stem not in groups and (output / f"{file.stem.removesuffix(OWN)}.json").exists():
            # Imported here: boards without matrices need neither torch nor scikit-learn.
            from vlbench.report.figures.similarity_figures import (  # noqa: PLC0415
                draw_similarities,
            )

            file.unlink()
            draw_similarities(output / "figures", file.stem, "", [], None)


def _write_similarities(
    file: Path, group: str, title: str, boards: Sequence[Board], looks: Mapping[str, Look]
) -> list[Path]:
    """Write the similarities of a group's models and their figures; return the files."""
    # Imported here for the same reason as in `_remove_old`.
    from vlbench.report.figures.similarity_figures import draw_similarities  # noqa: PLC0415
    from vlbench.report.similarities import (  # noqa: PLC0415
        joined,
        kind_of,
        left_out_rows,
        similarities,
        similarity_rows,
    )

    output = file.parent.parent
    members, left_out = joined(output, boards)
    if len(members) < 2:
        left_out |= dict.fromkeys((m.name for m in members), "no other model to compare it with")
    matrix = similarities(members) if len(members) > 1 else None
    rows = similarity_rows(members, matrix) if matrix else iter(())
    rows = chain(rows, left_out_rows(left_out))
    write_whole(file, _content(file, boards, rows, kind_of(boards).primary))
    # Controls are left out of the figures: their similarities mean nothing.
    places = [i for i, member in enumerate(members) if not member.is_control] if matrix else []
    names = [(members[i].name, looks[members[i].model]) for i in places]
    values = matrix.pearson[np.ix_(places, places)] if matrix and len(places) > 1 else None
    figures, measure = output / "figures", kind_of(boards).measure
    return [file, *draw_similarities(figures, group, title, names, values, measure)]


def _content(
    file: Path,
    boards: Sequence[Board],
    rows: Iterable[Mapping[str, Any]],
    primary: Mapping[str, Any],
) -> bytes:
    """Return the content of a summary's file; rows become text one by one, which saves memory."""
    output = file.parent.parent
    summary = {
        "schema": SCHEMA,
        "task": file.stem,
        "version": max(board.version for board in boards),
        "versions": {board.task: board.version for board in boards},
        "boards": {board.task: board_digest(board_file(output, board.task)) for board in boards},
        "primary": primary,
        "rows": [],
    }
    whole = json.dumps(summary, indent=1).removesuffix("]\n}")
    texts = (json.dumps(row, indent=1, allow_nan=False).replace("\n", "\n  ") for row in rows)
    inside = ",\n  ".join(texts)
    return (f"{whole}\n  {inside}\n ]\n}}\n" if inside else f"{whole}]\n}}\n").encode()


def build(output: Path, catalog: Catalog, figures: Figures | None = None) -> tuple[list[Path], int]:
    """Write summaries and figures of boards; return the files, and how many figures failed.

    `figures` are the figure functions that tasks name, by task. Raises SpecError for a malformed
    board or summary before anything is computed or written.
    """
    boards = folder_boards(output)
    for file in sorted(output.glob("summaries/*.json")):
        read_board(file, is_rebuilt=True)
    groups = {name: task.group for name, task in catalog.tasks.items() if task.group}
    groups = with_matrices(boards, groups)
    seen = {name: model.training_images or 0 for name, model in catalog.models.items()}
    rows = [row for board in boards.values() for row in board.results]
    of_models = looks({row.model for row in rows}, {row.model for row in rows if row.is_control})
    specs = catalog.tasks
    written = build_summaries(output, boards, groups, of_models, specs)
    written += draw_figures(output, boards, groups, seen, of_models, specs)
    of_tasks, failed = draw_task_figures(output, boards, figures or {}, of_models, specs)
    return [*written, *of_tasks], failed


def why_no_summary(output: Path, tasks: Sequence[str]) -> str:
    """Return why a group of tasks has no summary."""
    boards = [board for task in tasks if (board := read_board(board_file(output, task)))]
    for board in boards:
        if len(names := published_by_data(board.results)) > 1:
            return f"no mean: {board.task} has several data sets: {', '.join(sorted(names))}"
    return f"no model has all of {', '.join(tasks)}"
