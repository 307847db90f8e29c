"""Listings for `vlbench ls` and `vlbench show`, read from files without importing them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from vlbench.boards import Board
from vlbench.catalog.catalog import Catalog, load_catalog
from vlbench.catalog.library_names import library_model
from vlbench.catalog.offers import capabilities_of, needs_of
from vlbench.catalog.sources import PACKAGE, find_sources
from vlbench.catalog.specs import ModelSpec, TaskSpec
from vlbench.errors import SpecError, unknown
from vlbench.leaderboard.reproduction.claims import counted_row, read_boards
from vlbench.leaderboard.rows import published
from vlbench.results import Result, matching


def list_things(kind: str, include: Sequence[Path], wanted: str = "") -> list[dict[str, Any]]:
    """Return tasks, models, probes or loaders, each with `name`, `tags`, `file`, and more.

    A task also has what it `needs` of a model, and a model its `capabilities`; None where the text
    of its code does not tell. `wanted` is a tag, a capability that a model has or a task needs, or
    a part of the name in which * stands for anything. Raises UnknownNameError where nothing is so
    called.
    """
    rows = _all_things(kind, include)
    words = [{*row["tags"], *_capabilities(row)} for row in rows]
    found = [
        row
        for row, own in zip(rows, words, strict=True)
        if wanted in own or fnmatch(row["name"], f"*{wanted}*")
    ]
    if wanted and not found:
        names = {row["name"] for row in rows}.union(*words)
        raise unknown(kind.removesuffix("s"), wanted, names)
    return found


def _capabilities(row: Mapping[str, Any]) -> list[str]:
    """Return what a model can do, or what a task needs of a model."""
    return row.get("capabilities") or re.findall(r"\w+", row.get("needs") or "")


def _all_things(kind: str, include: Sequence[Path]) -> list[dict[str, Any]]:
    if kind in {"probes", "data"}:
        folders = [PACKAGE / kind, *(source / kind for source in find_sources(include))]
        wanted = _is_probe if kind == "probes" else _is_loader
        return [row for folder in dict.fromkeys(folders) for row in _functions(folder, wanted)]
    catalog = load_catalog(include)
    specs = catalog.tasks if kind == "tasks" else catalog.models
    return [_summary(specs[name]) for name in sorted(specs)]


def show_thing(catalog: Catalog, name: str, output: Path) -> dict[str, Any]:
    """Return the content of a task's file or a model's line. Raises UnknownNameError.

    A model of a library, such as `timm:NAME`, is shown as the line that it stands for.

    Beside a published value stands ours, where a board in `output` has it.
    """
    if name in catalog.tasks:
        task = catalog.tasks[name]
        values = {"needs": needs_of(task), **task.document.values}
        if task.reference:
            board = read_boards(output, [task])[name]
            values["reference"] = [{**one, **_ours(task, one, board)} for one in task.reference]
        return {"name": name, "file": str(task.file), **values}
    if name in catalog.models:
        model = catalog.models[name]
        values = {str(key): value for key, value in model.document.values.items()}[name]
        can = capabilities_of(model)
        return {"name": name, "file": str(model.file), "capabilities": can, **values}
    if meant := library_model(name, {}):
        values = {"adapter": meant.adapter, "params": dict(meant.params)}
        can = capabilities_of(meant)
        return {"name": name, "file": str(meant.file), "capabilities": can, **values}
    raise unknown("task or model", name, {*catalog.tasks, *catalog.models})


def _ours(task: TaskSpec, reference: Mapping[str, Any], board: Board | None) -> dict[str, Any]:
    """Return our value of a published one, the difference, and that in standard errors."""
    row = counted_row(board, task, reference["model"])
    scores = matching(row.scores, reference) if isinstance(row, Result) else []
    found = published(task, reference["model"], scores[0]) if scores else None
    if found is None:
        return {}
    ours = {"ours": scores[0].value, "difference": found.difference}
    errors = {} if found.in_stderr is None else {"in_standard_errors": found.in_stderr}
    return ours | errors


def _summary(spec: TaskSpec | ModelSpec) -> dict[str, Any]:
    row: dict[str, Any] = {"name": spec.name, "tags": [], "file": str(spec.file)}
    if isinstance(spec, ModelSpec):
        about = f"unavailable: {spec.unavailable}" if spec.unavailable else spec.paper
        can = capabilities_of(spec)
        return row | {
            "adapter": spec.adapter,
            "capabilities": can,
            "about": about or spec.paper or spec.weights,
        }
    row["tags"] = list(spec.tags)
    about = spec.description or (f"group of {', '.join(spec.group)}" if spec.group else spec.paper)
    return row | {"probe": spec.probe, "needs": needs_of(spec), "about": about}


def _functions(folder: Path, wanted: Any) -> Iterator[dict[str, Any]]:
    """Yield the wanted public functions of a folder's files, read as text."""
    for file in sorted(folder.rglob("*.py")):
        for node in _parsed(file).body:
            if isinstance(node, ast.FunctionDef) and node.name[0] != "_" and wanted(node):
                about = (ast.get_docstring(node) or "").partition("\n")[0]
                shipped = folder.parent == PACKAGE
                inner = ".".join(file.relative_to(folder).with_suffix("").parts)
                module = f"vlbench.{folder.name}.{inner}" if shipped else file.stem
                name = f"{module}:{node.name}"
                yield {"name": name, "tags": [], "file": str(file), "about": about}


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text("utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise SpecError(f"{file}: is no Python: {error}") from error


def _is_probe(node: ast.FunctionDef) -> bool:
    # A probe that does not say what it returns is one by its arguments.
    named = [a.arg for a in node.args.args[:3]] == ["model", "data", "engine"]
    return named and _returned(node) in {"Outcome", ""}


def _is_loader(node: ast.FunctionDef) -> bool:
    # YAML gives a loader keywords: what takes its arguments by place is a part of one.
    return _returned(node) == "Data" and not node.args.args


def _returned(node: ast.FunctionDef) -> str:
    returned = ast.unparse(node.returns).strip("'\"") if node.returns else ""
    return returned.rpartition(".")[2]
