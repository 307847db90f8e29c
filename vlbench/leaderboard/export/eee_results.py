"""The results of a record of Every Eval Ever: one for each score of a row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from vlbench.leaderboard.export.naming import hub_set, loader_of
from vlbench.leaderboard.export.selection import Entry
from vlbench.results import Result, Score

COLLECTION = "vlbench"
UNKNOWN = "unknown"


def result_id(row: Result, score: Score) -> str:
    """Return the id of a score within its record."""
    at = ",".join(f"{key}={value}" for key, value in sorted(score.at.items()))
    return f"{row.task}.v{row.version}/{score.metric}{'/' if at else ''}{at}"


def result_of(entry: Entry, i: int) -> dict[str, Any]:
    """Return one score of a row; every value below `details` is a text, as the schema wants."""
    row, score, given = entry.row, entry.row.scores[i], entry.published[i]
    details = {
        "at": as_text(score.at),
        "comparable": row.comparable,
        **({} if score.chance is None else {"chance": repr(score.chance)}),
        **{f"floor.{name}": repr(value) for name, value in score.floors.items()},
        **({"published": repr(given.value), "published_where": given.where} if given else {}),
        **{f"note.{k}": note for k, note in enumerate(row.notes)},
    }
    return {
        "evaluation_result_id": result_id(row, score),
        "evaluation_name": evaluation_of(row),
        "source_data": _data(row),
        "metric_config": _metric(score),
        "score_details": {
            "score": score.value,
            "details": details,
            "uncertainty": _uncertainty(score),
        },
    }


def evaluation_of(row: Result) -> str:
    """Return the name of the evaluation: vlbench's task."""
    return f"{COLLECTION}.{row.task}"


def _data(row: Result) -> dict[str, Any]:
    details = {"data": str(row.provenance.get("data", UNKNOWN))}
    found = hub_set(row)
    if found is None:
        return {
            "dataset_name": loader_of(row),
            "source_type": "other",
            "additional_details": details,
        }
    return {
        "dataset_name": found.repository,
        "source_type": "hf_dataset",
        "hf_repo": found.repository,
        "additional_details": details | {"revision": found.revision},
    }


def _metric(score: Score) -> dict[str, Any]:
    """Return what a metric is, with the range of its values, where it has one."""
    named = {
        "metric_id": "accuracy" if score.metric == "accuracy" else f"{COLLECTION}.{score.metric}",
        "metric_name": score.metric,
        "metric_unit": "proportion" if score.unit == "fraction" else score.unit,
        "metric_parameters": dict(score.at),
        "lower_is_better": not score.higher_is_better,
    }
    least, greatest = score.limits
    if least is None and greatest is None:
        return named
    low = "-Infinity" if least is None else least  # JSON has no infinite numbers
    high = "Infinity" if greatest is None else greatest
    return named | {"score_type": "continuous", "min_score": low, "max_score": high}


def _uncertainty(score: Score) -> dict[str, Any]:
    found: dict[str, Any] = {"num_samples": score.n}
    if score.stderr is not None:
        found["standard_error"] = {"value": score.stderr}
    if score.ci95:
        low, high = score.ci95
        found["confidence_interval"] = {"lower": low, "upper": high, "confidence_level": 0.95}
    return found


def as_texts(values: Any) -> dict[str, str]:
    """Return a mapping's values as texts: plain ones as they are, others as JSON."""
    pairs = values.items() if isinstance(values, Mapping) else ()
    return {k: v if isinstance(v, str) else as_text(v) for k, v in pairs}


def as_text(value: Any) -> str:
    """Return a value as JSON; conditions are the same text as in a table of items."""
    plain = dict(value) if isinstance(value, Mapping) else value
    return json.dumps(plain, sort_keys=True, ensure_ascii=False, allow_nan=False)
