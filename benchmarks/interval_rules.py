"""Print which rule gives each score its interval.

A control runs one embedded task of each probe. Every function of RULES remembers what it returns,
and a score is of the rule whose estimate it has. Probes without an embedded task have no line, nor
has question generation, which trains for long.

Run: python benchmarks/interval_rules.py [--tasks few_shot_scenes,knn_scenes]
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from importlib import import_module
from typing import Any

import vlbench
from vlbench.catalog.catalog import load_catalog
from vlbench.results import Score

LONG = {"question_generation_scenes"}

# What gives estimates, the most special first, and its name.
RULES = {
    "vlbench.metrics.best_of_halves:best_of_halves": "best layer, by halves",
    "vlbench.metrics.rdm_correlation:jackknife": "correlation of matrices, of distances",
    "vlbench.metrics.representation_similarity:block_jackknife": "debiased CKA, mutual k-NN",
    "vlbench.probes.generalization.word_similarity:agreement": "correlation of judged pairs",
    "vlbench.metrics.gains:beyond_one_more_draw": "gap beyond random",
    "vlbench.metrics.intervals:mean_over_pairs": "analogies",
    "vlbench.metrics.intervals:mean_of_trials": "trials",
    "vlbench.metrics.intervals:mean_of_seeds": "trials",
    "vlbench.metrics.intervals:estimate_of_sums": "ratio, mean, corpus score",
    "vlbench.metrics.intervals:clustered_ratio": "ratio",
    "vlbench.metrics.intervals:clustered_fraction": "fraction over clusters",
    "vlbench.metrics.intervals:fraction": "fraction with a variance of its own, such as clustering",
    "vlbench.metrics.intervals:wilson": "independent items, Wilson",
    "vlbench.metrics.intervals:unvaried": "nothing varies",
}


def record(rule: str, given: dict[float, str]) -> None:
    """Let a function remember the standard errors that it returns, wherever it is imported."""
    module, _, name = rule.partition(":")
    function = getattr(import_module(module), name)

    @wraps(function)
    def recording(*args: Any, **options: Any) -> Any:
        found = function(*args, **options)
        for error in errors_in(found):
            # A rule that another calls returns before it.
            given[error] = RULES[rule]
        return found

    for one in list(sys.modules.values()):
        for key, value in vars(one).items() if one.__name__.startswith("vlbench") else ():
            if value is function:
                setattr(one, key, recording)


def errors_in(found: Any) -> Iterator[float]:
    """Yield the standard errors in what a rule returned, of matrices one per pair."""
    error = getattr(found, "estimate", found)
    error = getattr(error, "stderr", error[0] if isinstance(error, tuple) else None)
    yield from (float(x) for x in _numbers(error))


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, int | float):
        yield value
    elif value is not None:
        for one in value:
            yield from _numbers(one)


def rule_of(score: Score, given: Mapping[float, str]) -> str:
    """Return the rule of a score's interval, or that its probe works it out by itself."""
    if score.ci95 is None:
        return "no interval"
    return given.get(float(score.stderr or 0.0), "its own, in the module of the probe")


def lines(tasks: Sequence[str], run: Callable[[str], Sequence[Any]]) -> Iterator[str]:
    """Yield the table, one line per task and rule."""
    yield "| task | interval | scores |"
    yield "|---|---|---|"
    given: dict[float, str] = {}
    for rule in RULES:
        record(rule, given)
    for task in tasks:
        given.clear()
        by_rule: dict[str, dict[str, None]] = defaultdict(dict)
        for result in run(task):
            for score in result.scores:
                by_rule[rule_of(score, given)][f"`{score.metric}`"] = None
        for rule, metrics in sorted(by_rule.items()):
            yield f"| {task} | {rule} | {', '.join(metrics)} |"


def evaluate(task: str) -> Sequence[Any]:
    """Return the results of a control on a task."""
    return vlbench.evaluate("random-scores", task, device="cpu")


def chosen_tasks() -> list[str]:
    """Return the first embedded task of each probe, by name."""
    first: dict[str, str] = {}
    for name, spec in sorted(load_catalog().tasks.items()):
        if "embedded" in spec.tags and not spec.group and name not in LONG:
            first.setdefault(str(spec.probe), name)
    return sorted(first.values())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", default="")
    asked = parser.parse_args().tasks
    for line in lines(asked.split(",") if asked else chosen_tasks(), evaluate):
        print(line, flush=True)
