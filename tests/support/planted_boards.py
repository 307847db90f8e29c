"""Boards with planted rows, for the tests of what is made from boards."""

import json
from dataclasses import asdict

from vlbench.boards import Board
from vlbench.results import Result, Score

PRIMARY = {"metric": "accuracy", "at": {"shots": 5}}


def score(value=0.5, metric="accuracy", **rest):
    return Score(metric=metric, value=value, **{"n": 100, "at": {"shots": 5}} | rest)


def result(model="m", *scores, **rest):
    planted = {"task": "t", "version": 1, "paper": "", "primary": PRIMARY, "status": "ok"}
    planted |= {"comparable": "a", "provenance": {"weights": "sha256:1", "adapter": "sha256:2"}}
    return Result(model=model, scores=scores, **planted | {"counts": counts()} | rest)


def counts(n=100, expected=100):
    return {"n": n, "expected": expected}


def board(*results, task="t", version=1, primary=PRIMARY):
    return Board(task=task, version=version, paper="", primary=primary, results=results)


def write(folder, *boards):
    """Write boards as their tasks' files; return the folder."""
    for one in boards:
        rows = [row.row() for row in one.results]
        content = {"schema": 1} | asdict(one) | {"rows": rows}
        del content["results"]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{one.task}.json").write_text(json.dumps(content))
    return folder
