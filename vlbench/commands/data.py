"""`vlbench data`: show what a task will read, or which data are here and which are missing."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.sources import shipped_source
from vlbench.commands import Answer
from vlbench.commands.parser import (
    add_data,
    add_images,
    add_json,
    add_trust,
    set_up_for_data,
)
from vlbench.data.images import DecodedImages
from vlbench.data.presence import absence
from vlbench.data.records import Column, Data, Split, content, overlaps
from vlbench.errors import UnknownNameError, counted, printed, unknown
from vlbench.report.texts import plain_table

if TYPE_CHECKING:  # these import torch
    from vlbench.catalog.catalog import Catalog
    from vlbench.run.options import Options
    from vlbench.run.task import Task

# Examples shown of each split, and images whose sizes are read, evenly spaced.
EXAMPLES, SIZED = 5, 1000

# Characters shown of the first value of a column.
BRIEF = 100

# Columns that describe an example in a few words.
SUMMARIES = ("caption", "question", "text", "words")


def add_options(data: argparse.ArgumentParser) -> None:
    """Add the options for the task, or all tasks, and the folder of the data."""
    data.add_argument("task", metavar="TASK", nargs="?")
    data.add_argument(
        "--all", action="store_true", help="list the data of all tasks, and how to get missing data"
    )
    add_data(data, download=True)
    add_images(data)
    add_json(data)
    add_trust(data)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return a description of a task's data, as tables or JSON; for a group, its members.

    Raises UnknownNameError for an unknown task, and DataAbsent.
    """
    catalog, name = load_catalog(arguments.include_path), arguments.task
    if arguments.all == bool(name):
        raise UnknownNameError("name a task, or pass --all")
    if arguments.all:
        with set_up_for_data(arguments) as options:
            rows = list_data(catalog, options)
        lines = [_line(row, options) for row in rows]
        return Answer([json.dumps(rows, indent=1)] if arguments.json else lines)
    if name not in catalog.tasks:
        raise unknown("task", name, catalog.tasks)
    members = catalog.tasks[name].group
    if members:
        return Answer([f"{name} is a group of {', '.join(members)}"])
    from vlbench.run.task import require_read, resolve_task  # imports torch

    with set_up_for_data(arguments) as options:
        require_read(catalog, [name], options)
        task = resolve_task(catalog, name, True, options)
        kinds = {"regions": next(iter(task.regions.values()))} if task.regions else {}
        facts = describe(task.loader(**task.loader_arguments, **kinds))
    return Answer([json.dumps(facts, indent=1)] if arguments.json else _lines(name, facts))


def list_data(catalog: Catalog, options: Options) -> list[dict[str, Any]]:
    """Return what the tasks read from this machine, each with `name` and whether it is `found`.

    Missing data also have `what`, `get` and `put`. No data are read. Raises SpecError.
    """
    from vlbench.run.task import require_read, resolve_task

    specs = {name: spec for name, spec in sorted(catalog.tasks.items()) if not spec.group}
    require_read(catalog, [*specs], options)
    rows: dict[str, dict[str, Any]] = {}
    for name, spec in specs.items():
        task = resolve_task(catalog, name, False, options)
        for part, load in _parts(task):
            missing = absence(load)
            row: dict[str, Any] = {"name": part, "tags": [], "file": str(spec.file)}
            row |= {"found": missing is None, "tasks": []}
            if missing:
                row |= {"what": missing.what, "get": missing.where_to_get}
                row |= {"put": missing.where_to_put}
            rows.setdefault(repr(row | {"file": ""}), row)["tasks"].append(name)
    return sorted(rows.values(), key=lambda row: (not row["found"], row["name"]))


def _parts(task: Task) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the inputs of a task by name: its data, region features, and files of its probe."""
    from vlbench.data.regions.features import region_features
    from vlbench.run.job import require_file

    load = partial(task.loader, **task.loader_arguments)
    yield task.spec.data["loader"].rpartition(":")[2], load
    for place in task.regions.values():
        if isinstance(place, Path):
            yield f"{place.parent.name}/{place.name}", partial(region_features, place)
    sources = (task.spec.source, shipped_source())  # a task may extend a task of vlbench
    for key, path in task.files.items():
        if not any(path.resolve().is_relative_to(source) for source in sources):
            yield key, partial(require_file, key, path)


def _line(row: Mapping[str, Any], options: Options) -> str:
    """Return a line about data, wrapped to 80 columns, with a variable for the data folder."""
    from vlbench.run.options import DATA_VARIABLE

    if row["found"]:
        return f"found    {row['name']}"
    folder = str(options.data_folder or DATA_VARIABLE)
    put = row["put"].replace(folder, DATA_VARIABLE)
    text = f"missing  {row['name']}: {row['what']}; get it from {row['get']}; put it at {put}"
    indent = " " * len("missing  ")
    return fill(text, 80, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def describe(data: Data) -> dict[str, Any]:
    """Return each split's rows, classes, sizes, columns, examples, missing and duplicate rows.

    `overlap` counts the rows of a split whose content is also in another split.
    """
    shared, gaps = overlaps(data), data.missing_rows()
    splits = {}
    for name, split in data.splits.items():
        digests = content(split)
        splits[name] = {
            "rows": len(split),
            "missing": gaps.get(name, 0),
            "duplicates": None if digests is None else len(digests) - len(set(digests)),
            "overlap": {other: count for (first, other), count in shared.items() if first == name},
            "per_class": _per_class(data, split),
            "sizes": _sizes(split),
            "columns": {column: _show_value(split[column]) for column in sorted(split.columns)},
            "examples": [_example(data, split, i) for i in range(min(EXAMPLES, len(split)))],
        }
    facts = {"data": data.digest(), "classes": len(data.classes), "dropped": dict(data.dropped)}
    facts["notes"] = list(data.notes)
    return facts | {"splits": splits}


def _per_class(data: Data, split: Split) -> dict[str, int]:
    if "label" not in split.columns or not data.classes:
        return {}
    counts = Counter(split["label"])
    return {name: counts[i] for i, name in enumerate(data.classes)}


def _sizes(split: Split) -> dict[str, int]:
    """Return image counts of a sample by size, WIDTHxHEIGHT; read from headers if possible."""
    if "image" not in split.columns:
        return {}
    column: Column = split["image"]
    rows = column.rows[:: max(1, len(column) // SIZED)]
    if isinstance(column.stored, DecodedImages):
        sizes = [column.stored.size(row) for row in rows]
    else:
        sizes = [column.stored[row].size for row in rows]
    return dict(Counter(f"{width}x{height}" for width, height in sizes).most_common())


def _show_value(column: Column) -> str:
    """Return the first value of a column in a few words."""
    if not len(column):
        return "no row"
    value = column[0]
    if column.kind == "image":
        return f"an image of {value.width}x{value.height}"
    if column.kind == "picture":
        parts = {"an image": value.image, "regions": value.regions}
        return " and ".join(name for name, part in parts.items() if part is not None)
    text = " ".join(repr(value).split())
    return text if len(text) <= BRIEF else f"{text[: BRIEF - 3]}..."


def _example(data: Data, split: Split, i: int) -> str:
    item = split[next(iter(split.columns))].ids[i]
    texts = [str(split[name][i]) for name in SUMMARIES if name in split.columns][:1]
    if "label" in split.columns and data.classes:
        texts.append(data.classes[split["label"][i]])
    return ": ".join([str(item), *texts])


def _lines(task: str, facts: Mapping[str, Any]) -> list[Any]:
    """Return the facts about a task's data as lines and a table."""
    columns = ["split", "rows", "missing", "duplicates", "rows per class", "image sizes"]
    splits = facts["splits"]
    cells = [
        [
            name,
            f"{split['rows']:,}",
            f"{split['missing']:,}",
            "unknown" if split["duplicates"] is None else f"{split['duplicates']:,}",
            _range(list(split["per_class"].values())),
            ", ".join(list(split["sizes"])[:3]) or "-",
        ]
        for name, split in splits.items()
    ]
    lines: list[Any] = [f"{task}: {facts['classes']} classes", plain_table(columns, cells)]
    lines += [printed(f"left out: {count:,} {what}") for what, count in facts["dropped"].items()]
    lines += map(printed, facts["notes"])
    for name, split in splits.items():
        lines += [
            f"{counted(count, 'row')} of {name} also in {other}"
            for other, count in split["overlap"].items()
            if count
        ]
        lines += [printed(f"{name}: {example}") for example in split["examples"]]
        lines.append(f"{name}, the columns for probes, and their first values:")
        lines += [printed(f"  {column}: {value}") for column, value in split["columns"].items()]
    return lines


def _range(counts: Sequence[int]) -> str:
    if not counts:
        return "-"
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
