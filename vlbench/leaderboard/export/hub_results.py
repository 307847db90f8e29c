"""Evaluation results for the Hugging Face hub: `.eval_results/<task>.yaml` in a model's repository.

The format has one number and no metric: it gets the primary score, and `notes` say what it is. Only
rows on a data set of the hub become one, and the hub shows only those on data sets that it lists as
benchmarks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import yaml

from vlbench.data.hub_sets import HubSet
from vlbench.files import safe_name
from vlbench.leaderboard.export.every_eval_ever import File, Source
from vlbench.leaderboard.export.naming import hub_set, model_id
from vlbench.leaderboard.export.selection import Entry, LeftOut, Selection
from vlbench.leaderboard.tables import score_name
from vlbench.results import Result, Score


def hub_results(selection: Selection, source: Source) -> Iterator[File | LeftOut]:
    """Yield a file for each model and task, below a folder named as the model's repository."""
    entries = [entry for part in selection.parts for entry in part.entries]
    places = Counter(_place(entry.row, source) for entry in entries)
    for entry in entries:
        data, place = hub_set(entry.row), _place(entry.row, source)
        if data is None:
            yield LeftOut(entry.row, "its data have no id on the hub")
        elif entry.primary is None:
            yield LeftOut(entry.row, "it lacks the primary score")
        elif places[place] > 1:
            yield LeftOut(entry.row, "another row of the model may not be compared with it")
        else:
            text = yaml.safe_dump([_entry(entry, entry.primary, data)], sort_keys=False)
            yield File(place, text.encode())


def _place(row: Result, source: Source) -> str:
    return f"{model_id(row.model, source.models)}/.eval_results/{safe_name(row.task)}.yaml"


def _entry(entry: Entry, score: Score, data: HubSet) -> dict[str, Any]:
    row = entry.row
    dataset = {"id": data.repository, "task_id": row.task, "revision": data.revision}
    found = {"dataset": dataset, "value": score.value}
    date = {"date": row.run["finished"]} if isinstance(row.run.get("finished"), str) else {}
    return {**found, **date, "notes": _notes(row, score)}


def _notes(row: Result, score: Score) -> str:
    """Return what the number is: its metric, direction, unit, n, interval and chance."""
    better = "higher" if score.higher_is_better else "lower"
    unit = "as a fraction" if score.unit == "fraction" else f"in {score.unit}"
    words = [f"{score_name(score.metric, score.at)}, {unit}, {better} is better", f"n = {score.n}"]
    if score.ci95:
        words.append(f"95 % interval {score.ci95[0]:.4g} to {score.ci95[1]:.4g}")
    if score.chance is not None:
        words.append(f"chance {score.chance:.4g}")
    version = row.provenance.get("vlbench", "of unknown version")
    return "; ".join([*words, f"vlbench {version}, task version {row.version}"])
