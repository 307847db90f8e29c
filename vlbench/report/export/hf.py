"""`.eval_results` files of the Hugging Face hub, and the names of models and data there."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from vlbench.catalog.sources import shipped_source
from vlbench.catalog.specs import ModelSpec
from vlbench.data import hub_sets
from vlbench.data.hub_sets import HubSet
from vlbench.report.data_sets import loader_of
from vlbench.report.export import File, LeftOut, Selection
from vlbench.report.notes import notes_of
from vlbench.report.table import Entry
from vlbench.report.texts import score_name
from vlbench.results import Result, Score
from vlbench.system.files import safe_name

# "OpenAI's RN50, from timm/resnet50_clip.openai on the hub; MIT"
ON_THE_HUB = re.compile(r"(?:^|\s)([^\W_][\w.-]*/[^\W_][\w.-]*) on the hub\b", re.ASCII)

# Loaders whose rows equal the rows of a data set on the hub, wherever they read the data from.
HUB_DATA: Mapping[str, HubSet] = {
    "vlbench.data.cifar:cifar10": hub_sets.CIFAR10,
    "vlbench.data.cifar:cifar100": hub_sets.CIFAR100,
    "vlbench.data.mnist:mnist": hub_sets.MNIST,
    "vlbench.data.mnist:fashion_mnist": hub_sets.FASHION_MNIST,
    "vlbench.data.svhn:svhn": hub_sets.SVHN,
}


def files(selection: Selection) -> Iterator[File | LeftOut]:
    """Yield a file for each model and task, in a folder named after the model's repository."""
    places = Counter(_place(entry.row, selection.models) for entry in selection.entries)
    for entry in selection.entries:
        data, place = hub_set(entry.row), _place(entry.row, selection.models)
        if data is None:
            yield LeftOut(entry.row, "its data have no id on the hub")
        elif entry.primary is None:
            yield LeftOut(entry.row, "it has no primary score")
        elif places[place] > 1:
            yield LeftOut(entry.row, "another row of the model is not comparable with it")
        else:
            text = yaml.safe_dump([_entry(entry, entry.primary, data)], sort_keys=False)
            yield File(place, text.encode())


def _place(row: Result, models: Mapping[str, ModelSpec]) -> str:
    return f"{model_id(row.model, models)}/.eval_results/{safe_name(row.task)}.yaml"


def _entry(entry: Entry, score: Score, data: HubSet) -> dict[str, Any]:
    row = entry.row
    dataset = {"id": data.repository, "task_id": row.task, "revision": data.revision}
    result = {"dataset": dataset, "value": score.value}
    date = {"date": row.run["finished"]} if isinstance(row.run.get("finished"), str) else {}
    return {**result, **date, "notes": _notes(row, score)}


def _notes(row: Result, score: Score) -> str:
    """Return metric, direction, unit, n, interval, chance and verdict, and the notes of the row."""
    better = {True: "higher", False: "lower", None: "neither higher nor lower"}[
        score.higher_is_better
    ]
    unit = "as a fraction" if score.unit == "fraction" else f"in {score.unit}"
    words = [f"{score_name(score.metric, score.at)}, {unit}, {better} is better", f"n = {score.n}"]
    if score.ci95:
        words.append(f"95 % interval {score.ci95[0]:.4g} to {score.ci95[1]:.4g}")
    if score.chance is not None:
        words.append(f"chance {score.chance:.4g}")
    words += [score.verdict] if score.verdict else []
    version = row.provenance.get("vlbench", "of unknown version")
    return "; ".join([*words, f"vlbench {version}, task version {row.version}", *notes_of(row)])


def model_id(name: str, models: Mapping[str, ModelSpec]) -> str:
    """Return the id of a row's model, `organisation/name`; also a path of two folders."""
    spec = models.get(name)
    match = ON_THE_HUB.search(spec.weights) if spec else None
    if match:
        return match[1]
    shipped = spec is not None and spec.source == shipped_source()
    return f"{'vlbench' if shipped else 'local'}/{_plain(name)}"


def hub_set(row: Result) -> HubSet | None:
    """Return a row's data set on the hub; None if it has none there."""
    return HUB_DATA.get(loader_of(row))


def _plain(name: str) -> str:
    """Return a name in the characters of ids; a changed name ends in a digest of the original."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
