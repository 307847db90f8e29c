"""The formats: what each is called, and whether it is one text or a folder of files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml

from vlbench.data.hub_sets import HubSet
from vlbench.files import safe_name
from vlbench.leaderboard.export.comma_separated import comma_separated
from vlbench.leaderboard.export.every_eval_ever import File, Source, records
from vlbench.leaderboard.export.latex import latex
from vlbench.leaderboard.export.markdown import markdown
from vlbench.leaderboard.export.selection import Entry, LeftOut, Part, Selection, hub_set, model_id
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


SCHEMA = 1


def plain_json(selection: Selection) -> str:
    """Return the document, in ASCII, so that it is safe to print."""
    rows = [_row(part, entry) for part in selection.parts for entry in part.entries]
    return json.dumps({"schema": SCHEMA, "rows": rows}, indent=1, allow_nan=False) + "\n"


def _row(part: Part, entry: Entry) -> dict[str, Any]:
    board = part.board
    row = entry.row.row()
    for score, given in zip(row["scores"], entry.published, strict=True):
        score["published"] = given._asdict() if given else None
    return {
        "task": board.task,
        "version": board.version,
        "paper": board.paper,
        "primary": board.primary,
        "against_leader": entry.standing,
        **row,
    }


TEXTS: Mapping[str, Callable[[Selection], str]] = {
    "md": markdown,
    "csv": comma_separated,
    "tex": latex,
    "json": plain_json,
}
FOLDERS: Mapping[str, Callable[[Selection, Source], Iterator[File | LeftOut]]] = {
    "eee": records,
    "hf": hub_results,
}
