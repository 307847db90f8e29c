"""Ids and labels of the page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from vlbench.files import safe_name
from vlbench.leaderboard.tables import condition, interval
from vlbench.leaderboard.texts import printed
from vlbench.results import Score

NO_SCORE = "-"

ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


def task_id(name: str, *, summary: bool) -> str:
    """Return the id of a board or a summary."""
    return f"{'group' if summary else 'task'}-{safe_name(name)}"


def model_id(name: str) -> str:
    """Return the id of a model."""
    return f"model-{safe_name(name)}"


def row_id(task: str, model: str, comparable: str = "") -> str:
    """Return the id of a row, which stays the same whatever other rows the page has.

    `comparable` is given for a model with several rows.
    """
    more = "." + safe_name(comparable.removeprefix("sha256:"))[:8] if comparable else ""
    return f"row-{safe_name(task)}.{safe_name(model)}{more}"


def conditions(at: Mapping[str, Any]) -> str:
    """Return the conditions of a score in words."""
    return printed(", ".join(f"{key} {condition(value)}" for key, value in at.items()))


def metric_label(metric: str, at: Mapping[str, Any], unit: str = "fraction") -> str:
    """Return a metric with its conditions and unit."""
    inside = conditions(at)
    label = f"{metric} ({inside})" if inside else metric
    return printed(f"{label}, %" if unit == "fraction" else label)


def figure_of(value: float, unit: str = "fraction") -> str:
    """Return a number without its unit: a fraction as a percentage with one decimal."""
    if unit == "correlation":
        return f"{value:.3f}"
    return f"{100.0 * value:.1f}" if unit == "fraction" else f"{value:.4g}"


def interval_of(score: Score) -> str:
    """Return the 95 % interval of a score; empty where it has none."""
    if not score.ci95:
        return ""
    if score.unit != "correlation":
        return interval(score)
    low, high = score.ci95
    return f"{low:.3f} to {high:.3f}"


def chance_of(score: Score) -> str:
    """Return the score of guessing; empty where it is unknown."""
    return "" if score.chance is None else figure_of(score.chance, score.unit)


def arxiv_link(paper: str) -> str:
    """Return the address of a paper on arXiv; empty where it is none."""
    found = ARXIV.search(paper)
    return f"https://arxiv.org/abs/{found[1]}" if found else ""
