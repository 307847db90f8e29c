"""Runs of the sources that tests write, from Python."""

import json
from pathlib import Path

import vlbench
from vlbench.bench import run, set_up
from vlbench.results import Result
from vlbench.run.execute import Report
from vlbench.run.options import Options
from vlbench.run.plan import Plan, plan


def evaluate(source: Path, model="mean-colour", tasks="few_shot_colours", **options):
    """Return the results of a model on tasks of a source."""
    return vlbench.evaluate(model, tasks, include_path=[source], **options)


def planned(models, tasks, **options) -> Plan:
    """Return the plan of models and tasks."""
    with set_up(Options.of(**options)) as (complete, _):
        return plan(models, tasks, complete)


def ran(models, tasks, **options) -> Report:
    """Return the report of a run."""
    with set_up(Options.of(**options)) as (complete, processes):
        return run(plan(models, tasks, complete), processes)


def board(folder: Path, task="few_shot_colours") -> dict:
    """Return a board as its file has it."""
    return json.loads((folder / f"{task}.json").read_text())


def primary(result: Result) -> list[float]:
    """Return the accuracies of a result."""
    return [s.value for s in result.scores if s.metric == "accuracy"]
