"""`vlbench ls`: list tasks, models, probes or data."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.listed_capabilities import capabilities_of, needs_of, with_defaults
from vlbench.catalog.loaders import is_loader, returned_type
from vlbench.catalog.sources import PACKAGE, find_sources
from vlbench.catalog.specs import Cost, ModelSpec, TaskSpec
from vlbench.commands import Answer
from vlbench.commands.parser import add_json
from vlbench.errors import SpecError, counted, unknown
from vlbench.report.texts import few, plain_table

# The columns of each kind of thing, besides its name.
COLUMNS = {
    "tasks": ("needs", "tags", "about"),
    "models": ("capabilities", "parameters", "training_data", "released", "about"),
    "probes": ("about",),
    "data": ("about",),
}

# Columns that are left out on a narrow terminal.
OPTIONAL = ("needs", "tags", "parameters", "training data", "released")

# The assumed speed in FLOP/s for estimates of time.
FLOPS = 10e12

# Arguments of a loader that come from the run, not from YAML.
OF_THE_RUN = ("model", "data", "engine", "cache_dir", "download", "wanted_splits")

# Arguments that decorators add to a probe.
ADDED = {
    "layered": ("layers", "Literal['all'] | list[str] | None = None"),
    "parted": ("categories", "dict[str, list[str]] | None = None"),
}


def add_options(ls: argparse.ArgumentParser) -> None:
    """Add the options for the kind of things and a filter."""
    ls.add_argument("kind", choices=[*COLUMNS])
    ls.add_argument(
        "filter", nargs="?", metavar="FILTER", help="a tag, a capability, or a part of the name"
    )
    add_json(ls)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the listing as a table or JSON."""
    rows = list_things(arguments.kind, arguments.include_path, arguments.filter or "")
    if arguments.json:
        return Answer([json.dumps(rows, indent=1)])
    columns = COLUMNS[arguments.kind]
    cells = [[row["name"], *(_cell(row, column) for column in columns)] for row in rows]
    heads = ["name", *(column.replace("_", " ") for column in columns)]
    return Answer([plain_table(heads, cells, optional=OPTIONAL)])


def _cell(row: Mapping[str, Any], column: str) -> str:
    value = row[column]
    if column == "parameters":
        return f"{value / 1e6:,.1f} million" if value else ""
    if value is None:
        return "" if row.get("adapter") == "" or row.get("probe") == "" else "unknown"
    return ", ".join(value) if isinstance(value, list) else value


def list_things(kind: str, include: Sequence[Path], wanted: str = "") -> list[dict[str, Any]]:
    """Return tasks, models, probes or loaders, each with `name`, `tags`, `file`, and more.

    A task also has what it `needs` of a model, and a model has its `capabilities`; None if the
    source code does not show it. `wanted` is a tag, a capability that a model has or a task needs,
    or a part of the name, with * as a wildcard. Raises UnknownNameError if nothing matches.
    """
    rows = _all_things(kind, include)
    words = [{*row["tags"], *_capabilities(row)} for row in rows]
    matches = [
        row
        for row, tags in zip(rows, words, strict=True)
        if wanted in tags or fnmatch(row["name"], f"*{wanted}*")
    ]
    if wanted and not matches:
        names = {row["name"].rpartition(":")[2] for row in rows}.union(*words)
        raise unknown(kind.removesuffix("s"), wanted, names)
    return matches


def _capabilities(row: Mapping[str, Any]) -> list[str]:
    """Return the capabilities of a model, or those that a task needs."""
    return row.get("capabilities") or re.findall(r"\w+", row.get("needs") or "")


def _all_things(kind: str, include: Sequence[Path]) -> list[dict[str, Any]]:
    if kind in {"probes", "data"}:
        folders = [PACKAGE / kind, *(source / kind for source in find_sources(include))]
        selects = _is_probe if kind == "probes" else is_loader
        return [row for folder in dict.fromkeys(folders) for row in _functions(folder, selects)]
    catalog = load_catalog(include)
    if kind == "tasks":
        return [_summary(catalog.tasks[name]) for name in sorted(catalog.tasks)]
    # Models whose cost is known come first, in the order of their file.
    models = sorted(catalog.models.items(), key=lambda pair: "" if pair[1].cost else pair[0])
    return [_summary(spec) for _, spec in models]


def _summary(spec: TaskSpec | ModelSpec) -> dict[str, Any]:
    row: dict[str, Any] = {"name": spec.name, "tags": [], "file": str(spec.file)}
    if isinstance(spec, ModelSpec):
        about = f"unavailable: {spec.unavailable}" if spec.unavailable else spec.paper
        about = about or spec.paper or spec.weights
        if spec.cost:
            about += f"; {describe_cost(spec.cost, spec.parameters)}"
        row |= {"adapter": spec.adapter, "capabilities": capabilities_of(spec), "about": about}
        row |= {"parameters": spec.parameters, "training_images": spec.training_images}
        row |= {"training_data": list(spec.training_data), "released": spec.released}
        return row | {"cost": spec.cost}
    row["tags"] = list(spec.tags)
    group = f"{counted(len(spec.group), 'task')}: {few(spec.group)}" if spec.group else ""
    about = spec.description or group or spec.paper
    return row | {"probe": spec.probe, "needs": needs_of(spec), "about": about}


def describe_cost(cost: Cost, parameters: int | None) -> str:
    """Return a model's memory, FLOPs, estimated time and licence in a few words."""
    memory = f"{parameters * 4 / 1e9:.2g} GB as float32, " if parameters else ""
    operations, image = cost["flops"], cost["image"]
    return (
        f"{memory}{operations / 1e9:.3g} GFLOP for an image of {image} x {image} "
        f"(estimate: {operations / FLOPS * 1000:.2g} ms at {FLOPS / 1e12:g} TFLOP/s); "
        f"{cost['licence']}"
    )


def _functions(folder: Path, selects: Any) -> Iterator[dict[str, Any]]:
    """Yield the wanted public functions of a folder's files, which are parsed, not imported."""
    for file in sorted(folder.rglob("*.py")):
        for node in _parse(file).body:
            if isinstance(node, ast.FunctionDef) and node.name[0] != "_" and selects(node):
                docstring = ast.get_docstring(node) or ""
                shipped = folder.parent == PACKAGE
                inner = ".".join(file.relative_to(folder).with_suffix("").parts)
                module = f"vlbench.{folder.name}.{inner}" if shipped else file.stem
                name = f"{module}:{node.name}"
                row = {"name": name, "tags": [], "file": str(file), "params": _keywords(node)}
                yield row | {"about": docstring.partition("\n")[0], "docstring": docstring}


def _keywords(node: ast.FunctionDef) -> dict[str, str]:
    """Return the type of each argument that YAML may give, with its default if it has one."""
    types, decorators = {}, {ast.unparse(one).partition("(")[0] for one in node.decorator_list}
    for argument, default in with_defaults(node.args):
        kind = ast.unparse(argument.annotation) if argument.annotation else "any"
        types[argument.arg] = f"{kind} = {ast.unparse(default)}" if default else kind
    types |= dict(added for name, added in ADDED.items() if name in decorators)
    if node.args.kwarg and "RowOptions" in ast.unparse(node.args):
        types |= _row_options()
    return {name: kind for name, kind in types.items() if name not in OF_THE_RUN}


@cache
def _row_options() -> dict[str, str]:
    """Return the types of the arguments that all loaders of rows share."""
    classes = [
        node for node in _parse(PACKAGE / "data/gate.py").body if isinstance(node, ast.ClassDef)
    ]
    (options,) = [node for node in classes if node.name == "RowOptions"]
    fields = [field for field in options.body if isinstance(field, ast.AnnAssign)]
    return {ast.unparse(one.target): f"{ast.unparse(one.annotation)}, optional" for one in fields}


def _parse(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text("utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise SpecError(f"{file}: is not valid Python: {error}") from error


def _is_probe(node: ast.FunctionDef) -> bool:
    # A probe without a return annotation is recognised by its arguments.
    has_arguments = [a.arg for a in node.args.args[1:3]] == ["data", "engine"]
    return has_arguments and returned_type(node) in {"Outcome", ""}
