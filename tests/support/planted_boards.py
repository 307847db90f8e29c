"""Boards with planted rows, for the tests of what is made from boards."""

import json
from dataclasses import asdict, replace

import numpy as np

from vlbench.boards.board import Board, save_artifacts
from vlbench.metrics.items import Examples, item_table, join_items
from vlbench.results import Result, Score

PRIMARY = {"metric": "accuracy", "at": {"shots": 5}}


def score(value=0.5, metric="accuracy", **rest):
    return Score(metric=metric, value=value, **{"n": 100, "at": {"shots": 5}} | rest)


def result(model="m", *scores, **rest):
    planted = {"task": "t", "version": 1, "paper": "", "primary": PRIMARY, "status": "ok"}
    planted |= {"comparable": "a", "provenance": {"weights": "sha256:1", "adapter": "sha256:2"}}
    return Result(model=model, scores=scores, **planted | {"counts": counts()} | rest)


def with_items(folder, row, *tables):
    """Return a row that keeps tables of items in a folder of boards."""
    saved = save_artifacts(folder, row.task, row.model, {"items": join_items(tables)})
    return replace(row, artifacts=saved)


def measured(folder, model, credit, **rest):
    """Return a row whose primary score is the mean of the credit of its items, which it keeps."""
    values = np.asarray(credit, float)
    names = [f"{i}.png" for i in range(values.shape[-1])]
    given = {"examples": Examples(names, [f"of {name}" for name in names])} | rest
    table = item_table(given.pop("examples"), "accuracy", {"shots": 5}, values)
    value = float(np.nanmean(np.atleast_2d(values), 1).mean())
    better = given.pop("higher_is_better", True)
    row = result(model, score(value, n=values.size, higher_is_better=better), **given)
    return with_items(folder, row, table)


def counts(n=100, expected=100):
    return {"n": n, "expected": expected}


def board(*results, task="t", version=1, primary=PRIMARY, paper=""):
    return Board(task=task, version=version, paper=paper, primary=primary, results=results)


def write(folder, *boards):
    """Write boards as their tasks' files; return the folder."""
    for one in boards:
        rows = [row.row() for row in one.results]
        content = {"schema": 1} | asdict(one) | {"rows": rows}
        del content["results"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{one.task}.json").write_text(json.dumps(content))
    return folder
