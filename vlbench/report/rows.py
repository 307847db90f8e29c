"""Selection and order of the rows of a board for summaries, figures and exports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.boards.board import Board, board_file, read_board
from vlbench.catalog.sources import PUBLISHED, RESULTS, shipped_boards
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import SpecError, UnknownNameError, counted, unknown
from vlbench.metrics.matrix_kinds import KINDS
from vlbench.results import Result, Score, matching


def publishable(results: Sequence[Result]) -> dict[str, Result]:
    """Return the complete ok rows of models with trained weights, by model.

    A model with two such rows is left out: their data or parameters differ, so they are not
    comparable, and it is unknown which row to use.
    """
    good = [row for row in results if not unpublished(row)]
    often = Counter(row.model for row in good)
    return {row.model: row for row in good if often[row.model] == 1}


def matrices_of(board: Board) -> str:
    """Return the artifact by which the models of a board are compared; empty if there is none."""
    kept = {name for row in board.results for name in row.artifacts}
    return next((name for name in KINDS if name in kept), "")


def unpublished(row: Result) -> str:
    """Return why a row's numbers are not published; empty if they are."""
    if row.status != "ok":
        return f"{row.status}, {row.reason}"
    if row.is_partial:
        return f"partial, {counted(row.absent_rows, 'official row')} absent"
    if row.task_params:
        return f"other parameters than the task's: {', '.join(row.task_params)}"
    return "random weights" if is_random(row) else ""


def is_random(row: Result) -> bool:
    """Return whether a row's model has random weights."""
    return str(row.provenance.get("weights", "")).startswith("random:")


def ties_mark(row: Result) -> str:
    """Return the mark beside a score if most choices were tied; otherwise empty."""
    return " (mostly ties)" if row.is_mostly_tied else ""


def comparable_sets(rows: Sequence[Result]) -> dict[str, list[Result]]:
    """Return the ok rows by `comparable`, in the order of each set's first row."""
    sets: dict[str, list[Result]] = {}
    for row in rows:
        if row.status == "ok":
            sets.setdefault(row.comparable, []).append(row)
    return sets


def ranked(rows: Sequence[Result], primary: Mapping[str, Any]) -> list[tuple[Result, Score | None]]:
    """Return rows with their primary score, best first, ties in the given order, None last."""
    scored = [(row, next(iter(matching(row.scores, primary)), None)) for row in rows]
    return sorted(scored, key=lambda pair: (pair[1] is None, cost(pair[1]) if pair[1] else 0.0))


def cost(score: Score) -> float:
    """Return a number that is lower for a better score, and 0 for a score without a direction."""
    if score.higher_is_better is None:
        return 0.0
    return score.value if score.lower_is_better else -score.value


class Published(NamedTuple):
    """A published value of a score, and where it is published.

    `difference` is our score minus the paper's, and `in_stderr` is the same in standard errors of
    our score; None if our score has no standard error, or 0.
    """

    value: float
    where: str
    difference: float
    in_stderr: float | None


def published(spec: TaskSpec, model: str, score: Score) -> Published | None:
    """Return the value that a task's file gives for this model and score; None if there is none."""
    for entry in spec.reference:
        if entry["model"] == model and "floor" not in entry and matching([score], entry):
            return compare(entry, score)
    return None


def score_of(reference: Mapping[str, Any], scores: Sequence[Score]) -> Score | None:
    """Return the score, or floor of a score, that a published value refers to; None if missing."""
    score = next(iter(matching(scores, reference)), None)
    if score is None or "floor" not in reference:
        return score
    floor = score.floors.get(reference["floor"])
    return None if floor is None else replace(score, value=floor, stderr=None, ci95=None)


def compare(reference: Mapping[str, Any], ours: Score) -> Published:
    """Return a published value beside our score."""
    difference = ours.value - reference["value"]
    in_stderr = difference / ours.stderr if ours.stderr else None
    return Published(reference["value"], place(reference), difference, in_stderr)


def place(reference: Mapping[str, Any]) -> str:
    """Return where a value is published: its source, if not the task's paper, and the place."""
    return ", ".join(filter(None, (reference.get("source"), reference["where"])))


def named_files(output: Path, names: Sequence[str]) -> list[Path]:
    """Return the files of the named boards and summaries; of all in the folder if none is named.

    Raises UnknownNameError for a name without a file, and for a folder without boards.
    """
    files = [*output.glob("*.json"), *output.glob("summaries/*.json")]
    by_name = {file.stem: file for file in sorted(files)}
    absent = [name for name in names if name not in by_name]
    if absent or not by_name:
        if not by_name:
            raise UnknownNameError(f"no boards in {output}")
        groups = "; vlbench leaderboard build makes the boards of groups"
        whys = [f"{unknown(f'board in {output}', name, by_name)}{groups}" for name in absent]
        raise UnknownNameError("\n".join(whys))
    return [by_name[name] for name in dict.fromkeys(names or by_name)]


def named_boards(output: Path, names: Sequence[str]) -> list[Board]:
    """Return the named boards and summaries, or all of a folder; raises like `named_files`."""
    return [board for board in map(read_board, named_files(output, names)) if board]


def folder_of(output: Path, model: str, task: str = "") -> Path:
    """Return the folder from which a model's rows, of all tasks or of one, are read.

    It is the output, or vlbench's shipped boards if only these have such rows; never these for a
    folder that a user named and that is not there. Raises SpecError.
    """
    shipped = shipped_boards() if output.is_dir() or output in {RESULTS, PUBLISHED} else None
    is_lent = shipped and not _has_row(output, model, task) and _has_row(shipped, model, task)
    return shipped if shipped and is_lent else output


def lent_note(model: str) -> str:
    """Return the message that a model's rows come from the shipped boards."""
    return f"{model}: from the boards shipped with vlbench"


def models_of_ones_own(folder: Path) -> list[str]:
    """Return the models on a folder's boards that are not on the boards shipped with vlbench."""
    shipped, models = shipped_boards(), _models(folder)
    return sorted(models - _models(shipped)) if shipped and models else sorted(models)


def _models(folder: Path) -> set[str]:
    """Return the models on a folder's boards; malformed boards are ignored."""
    boards = []
    for file in folder.glob("*.json"):
        with suppress(SpecError):
            boards.append(read_board(file))
    return {row.model for board in boards if board for row in board.results}


def _has_row(folder: Path, model: str, task: str) -> bool:
    files = [board_file(folder, task)] if task else folder.glob("*.json")
    boards = map(read_board, files)
    return any(row.model == model for board in boards if board for row in board.results)
