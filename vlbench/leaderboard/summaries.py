"""Means over the tasks of a group, made from boards alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from vlbench.boards import SCHEMA, read_board
from vlbench.errors import SpecError
from vlbench.files import write_whole

Row = Mapping[str, Any]


def build_summaries(output: Path, groups: Mapping[str, Sequence[str]]) -> list[Path]:
    """Write `summaries/<group>.json` for each group that a model has wholly, and return the files.

    Rows that are partial or of random weights are left out; so is a model that lacks a task. A
    summary that no model is left for is removed. Raises SpecError where the tasks of a group have
    other primary scores than each other. A group whose rows keep matrices is compared instead.
    """
    written: list[Path] = []
    for group, tasks in sorted(groups.items()):
        found = [read_board(output / f"{task}.json") for task in tasks]
        boards = [board for board in found if board]
        file = output / "summaries" / f"{group}.json"
        if any("rdm" in row.get("artifacts", {}) for board in boards for row in board["rows"]):
            written += _compare(output, group, boards, file)
            continue
        rows = summarise(boards) if len(boards) == len(tasks) else []
        if rows:
            if any(board["primary"] != boards[0]["primary"] for board in boards):
                raise SpecError(f"{group}: its tasks have different primary scores")
            write_whole(file, _content(group, boards, rows, boards[0]["primary"]))
            written.append(file)
        else:
            file.unlink(missing_ok=True)
    return written


def _compare(output: Path, group: str, boards: Sequence[Row], file: Path) -> list[Path]:
    """Write how alike the models of boards are, with the figures, and return the files."""
    # These two import `publishable` from here.
    from vlbench.leaderboard import similarities  # noqa: PLC0415
    from vlbench.leaderboard.similarity_figures import draw_similarities  # noqa: PLC0415

    members, left_out = similarities.joined(output, boards)
    if len(members) < 2:
        left_out |= dict.fromkeys((m.name for m in members), "no other model to compare it with")
    rows = similarities.similarity_rows(members) if len(members) > 1 else []
    rows += similarities.left_out_rows(left_out)
    write_whole(file, _content(group, boards, rows, similarities.PRIMARY))
    return [file, *draw_similarities(output / "figures", group, members)]


def summarise(boards: Sequence[Row]) -> list[dict[str, Any]]:
    """Return a row for each model that every board has a publishable row of.

    A score is the mean over the boards of the score of the same metric and conditions, with the
    standard error of the mean as arXiv:2104.08313 has it (population deviation / sqrt(tasks)).
    """
    tables = [publishable(board["rows"]) for board in boards]
    shared = set(tables[0]).intersection(*tables[1:])
    return [_mean_row(model, [table[model] for table in tables]) for model in sorted(shared)]


def publishable(rows: Iterable[Row]) -> dict[str, Row]:
    """Return the rows that a mean may count, by model; a model with two of them has none.

    Two ok rows of one model are of contents or parameters that may not be compared.
    """
    good = [
        row
        for row in rows
        if row["status"] == "ok"
        and row["counts"]["expected"] <= row["counts"]["n"]
        and not row["provenance"]["weights"].startswith("random:")
    ]
    models = [row["model"] for row in good]
    return {row["model"]: row for row in good if models.count(row["model"]) == 1}


def _mean_row(model: str, rows: Sequence[Row]) -> dict[str, Any]:
    keys = [[(s["metric"], s["at"]) for s in row["scores"]] for row in rows]
    shared = [key for key in keys[0] if all(key in other for other in keys[1:])]
    parts = [
        [row["scores"][k.index(key)] for row, k in zip(rows, keys, strict=True)] for key in shared
    ]
    joined = json.dumps([row["comparable"] for row in rows])
    return {
        "model": model,
        "status": "ok",
        "comparable": "sha256:" + hashlib.sha256(joined.encode()).hexdigest(),
        "scores": [_mean_score(scores) for scores in parts],
        "counts": {"n": len(rows), "expected": len(rows)},
    }


def _mean_score(scores: Sequence[Row]) -> dict[str, Any]:
    values = [score["value"] for score in scores]
    chances = [score["chance"] for score in scores if score["chance"] is not None]
    floors = set(scores[0]["floors"]).intersection(*(score["floors"] for score in scores))
    return {
        "metric": scores[0]["metric"],
        "value": fmean(values),
        "n": len(values),
        "at": scores[0]["at"],
        "stderr": pstdev(values) / len(values) ** 0.5,
        "ci95": None,
        "chance": fmean(chances) if len(chances) == len(scores) else None,
        "floors": {name: fmean(s["floors"][name] for s in scores) for name in sorted(floors)},
        "draws": values,
        "unit": scores[0]["unit"],
        "higher_is_better": scores[0]["higher_is_better"],
    }


def _content(group: str, boards: Sequence[Row], rows: Sequence[Row], primary: Row) -> bytes:
    summary = {
        "schema": SCHEMA,
        "task": group,
        "version": max(board["version"] for board in boards),
        "versions": {board["task"]: board["version"] for board in boards},
        "primary": primary,
        "rows": rows,
    }
    return (json.dumps(summary, indent=1, allow_nan=False) + "\n").encode()
