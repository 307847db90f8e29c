"""`vlbench show`: show what a task, model, probe or loader is, or draw a sheet of scenes."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from vlbench.boards.board import Board
from vlbench.catalog.catalog import Catalog, load_catalog
from vlbench.catalog.docstrings import split_args
from vlbench.catalog.library_names import library_model
from vlbench.catalog.listed_capabilities import (
    arguments_of,
    capabilities_of,
    default_of,
    needs_of,
    ways_to_encode_regions,
)
from vlbench.catalog.specs import ModelSpec, TaskSpec
from vlbench.catalog.training_data import trained_on
from vlbench.commands import Answer
from vlbench.commands.ls import list_things
from vlbench.commands.parser import add_json, add_output, parser_of
from vlbench.errors import printed, unknown
from vlbench.report.rows import compare, score_of
from vlbench.results import Result
from vlbench.run.memory import memory_options

# The things that a sheet can show.
DRAWN = ("objects", "scenes")

# Arguments that vlbench passes to an adapter, as in `vlbench.run.model`, which imports torch.
FILLED = ("device", "dtype")


def add_options(show: argparse.ArgumentParser) -> None:
    """Add the options for the name, and for the boards with our values."""
    show.add_argument("name", metavar="TASK|MODEL|PROBE|LOADER|scenes|objects")
    add_output(show)
    add_json(show)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the description of a thing as YAML or JSON; write a sheet to the current folder."""
    if arguments.name in DRAWN:
        return _draw(arguments)
    facts = show_thing(
        load_catalog(arguments.include_path),
        arguments.name,
        arguments.output,
        arguments.include_path,
    )
    if arguments.json:
        return Answer([json.dumps(facts, indent=1)])
    text = yaml.dump(facts, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if text != printed(text):  # YAML has escapes for control characters
        text = yaml.dump(facts, Dumper=_Dumper, sort_keys=False)
    return Answer([text.rstrip("\n")])


class _Dumper(yaml.SafeDumper):
    """Writes a text of several lines as a block."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Return the node of a text, as a block if it has several lines."""
        style = "|" if "\n" in data else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style)


_Dumper.add_representer(str, _Dumper.represent_str)


def _draw(arguments: argparse.Namespace) -> Answer:
    from vlbench.data.scenes import sheet

    facts = sheet.write_sheet(arguments.name, Path(f"{arguments.name}.png"))
    return Answer([json.dumps(facts, indent=1) if arguments.json else sheet.describe(facts)])


def show_thing(
    catalog: Catalog, name: str, output: Path, include: Sequence[Path] = ()
) -> dict[str, Any]:
    """Return the content of a task's file, a model's entry, or the arguments of a probe or loader.

    A model of a library, such as `timm:NAME`, is shown as the entry that it stands for. Our value
    is shown beside a published value if a board in `output` has it. Raises UnknownNameError.
    """
    if name in catalog.tasks:
        task = catalog.tasks[name]
        values = {"needs": needs_of(task), **task.document.values}
        if task.reference:
            from vlbench.report.judging import read_boards

            board = read_boards(output, [task])[name]
            values["reference"] = [{**one, **_ours(task, one, board)} for one in task.reference]
        return {"name": name, "file": str(task.file), **values}
    model = catalog.models.get(name) or library_model(name, {})
    if model is None and name in catalog.renamed:
        model = catalog.model(name)
        name = model.name
    if model is None:
        return _function(catalog, name, include)
    if name in catalog.models:
        values = {str(key): value for key, value in model.document.values.items()}[name]
    else:
        values = {"adapter": model.adapter, "params": dict(model.params)}
    can, ways = capabilities_of(model), ways_to_encode_regions(model)
    encodes = {"encode_by": " or ".join(ways)} if ways else {}
    facts = {"name": name, "file": str(model.file), "capabilities": can, **encodes, **values}
    takes = {key: value for key, value in arguments_of(model).items() if key not in FILLED}
    facts |= {"arguments": takes} if takes else {}
    saves = _memory_options(model)
    facts |= {"for less memory": " or ".join(saves)} if saves else {}
    seen = [key for key, task in sorted(catalog.tasks.items()) if trained_on(model, task)]
    return facts | ({"trained on data of the tasks": ", ".join(seen)} if seen else {})


def _memory_options(model: ModelSpec) -> list[str]:
    """Return the options with which a model takes less memory than by default."""
    arguments = arguments_of(model)
    # A served model uses no memory of this machine.
    if model.unavailable or {"served", "address"} <= {*arguments}:
        return []
    defaults = parser_of().parse_args(["run"])
    return memory_options(arguments, defaults.batch_size, defaults.dtype)


def _function(catalog: Catalog, name: str, include: Sequence[Path]) -> dict[str, Any]:
    """Return the arguments of a probe or a loader, by its whole name or the end of it.

    `vlbench.data.hub:images` is also found as `hub:images` and as `images`.
    """
    rows = [*list_things("probes", include), *list_things("data", include)]
    matches = [row for row in rows if re.search(rf"(^|[.:]){re.escape(name)}$", row["name"])]
    if not matches:
        short = {row["name"].rpartition(":")[2] for row in rows}
        raise unknown(
            "task, model, probe or loader", name, {*catalog.tasks, *catalog.models, *short}
        )
    facts = {row["name"]: _described(row) for row in matches}
    # Several names may end alike, such as the loaders `images` of tables, shards and the hub.
    return facts if len(facts) > 1 else {"name": matches[0]["name"], **facts[matches[0]["name"]]}


def _described(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a function's file, its docstring, and each parameter's type, default and meaning."""
    docstring, texts = split_args(row["docstring"])
    params: dict[str, dict[str, Any]] = {}
    for name, written in row["params"].items():
        kind, _, default = written.partition(" = ")
        params[name] = {"type": kind}
        if not kind.endswith("optional"):
            code = ast.parse(default, mode="eval").body if default else None
            params[name]["default"] = default_of(code)
        params[name] |= {"about": texts[name]} if name in texts else {}
    return {"file": row["file"], "params": params, "docstring": docstring}


def _ours(task: TaskSpec, reference: Mapping[str, Any], board: Board | None) -> dict[str, Any]:
    """Return our value for a published value, the difference, and this in standard errors."""
    from vlbench.report.judging import counted_row

    row = counted_row(board, task, reference["model"])
    score = score_of(reference, row.scores) if isinstance(row, Result) else None
    if score is None:
        return {}
    compared = compare(reference, score)
    ours = {"ours": score.value, "difference": compared.difference}
    errors = {} if compared.in_stderr is None else {"in_standard_errors": compared.in_stderr}
    return ours | errors
