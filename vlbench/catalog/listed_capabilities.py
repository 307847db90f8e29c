"""Capabilities of models and requirements of tasks, read from source code.

Nothing is imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from vlbench.catalog.docstrings import split_args
from vlbench.catalog.sources import (
    PACKAGE,
    capability_files,
    public_methods,
    shipped_source,
    top_level,
)
from vlbench.catalog.specs import ModelSpec, TaskSpec

# Stands for the default of a required argument.
REQUIRED = "(must be given)"


def capabilities_of(spec: ModelSpec) -> list[str] | None:
    """Return the capabilities of a model's adapter; None if its source code does not show them.

    That is the case if the adapter is in no folder of the source, or inherits methods from another
    library.
    """
    file, name = _place_of(spec)
    methods = _classes(file).get(name) if file else None
    if methods is None:
        return None
    files_of = {**capability_files(shipped_source()), **capability_files(spec.source)}
    methods_of = {name: wanted for part in files_of.values() for name, wanted in part.items()}
    offered = [capability for capability, wanted in methods_of.items() if wanted <= methods]
    return [capability for capability in offered if capability not in spec.without]


def arguments_of(spec: ModelSpec) -> dict[str, dict[str, Any]]:
    """Return the type, the default and the documented meaning of each argument of an adapter.

    A default is a value, or else its source text; for a required argument it is REQUIRED. An
    undocumented argument has no `about`. The result is empty if the source code does not show the
    arguments: the adapter is in no folder of the source, or inherits its `__init__` from another
    file.
    """
    file, name = _place_of(spec)
    classes = {node.name: node for node in (top_level(file, ast.ClassDef) if file else ())}
    while name in classes:
        node = classes.pop(name)
        for made in node.body:
            if isinstance(made, ast.FunctionDef) and made.name == "__init__":
                return _described(made.args, split_args(ast.get_docstring(node))[1])
        name = next((base for base in map(ast.unparse, node.bases) if base in classes), "")
    return {}


def _described(arguments: ast.arguments, texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    described = {}
    for argument, default in with_defaults(arguments)[1:]:
        kind = ast.unparse(argument.annotation) if argument.annotation else "any"
        about = {"about": texts[argument.arg]} if argument.arg in texts else {}
        described[argument.arg] = {"type": kind, "default": default_of(default), **about}
    return described


def with_defaults(node: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return each argument with its default, None for a required argument."""
    plain = [*[None] * (len(node.args) - len(node.defaults)), *node.defaults]
    return [*zip([*node.args, *node.kwonlyargs], [*plain, *node.kw_defaults], strict=True)]


def default_of(written: ast.expr | None) -> Any:
    """Return a number, a text or None as a value, and any other default as its source text."""
    if written is None:
        return REQUIRED
    with suppress(ValueError):
        value = ast.literal_eval(written)
        if value is None or isinstance(value, bool | int | float | str):
            return value
    return ast.unparse(written)


def _place_of(spec: ModelSpec) -> tuple[Path | None, str]:
    """Return the file of a model's adapter, None if its source has none, and the class's name."""
    module, _, name = spec.adapter.partition(":")
    files = [folder / f"{module}.py" for folder in spec.folders]
    return next((file for file in files if file.is_file()), None), name


def ways_to_encode_regions(spec: ModelSpec) -> list[str]:
    """Return the values of `encode_by` that a model accepts; empty unless it encodes images."""
    can = capabilities_of(spec) or []
    if "ImageEncoder" not in can or "RegionEncoder" in {*can, *spec.without}:
        return []
    return ["crops", "grid"] if "GridEncoder" in can else ["crops"]


def needs_of(spec: TaskSpec) -> str | None:
    """Return the annotation of the model under test; None if the source code does not show it.

    Alternatives are separated by ` | `, capabilities that are all needed by ` & `.
    """
    module, _, name = spec.probe.partition(":")
    file = probe_file(spec)
    kinds = _annotations(file).get(name or module, {}) if file else {}
    return kinds.get(spec.under_test or next(iter(kinds), ""))


def probe_file(spec: TaskSpec) -> Path | None:
    """Return the file of a task's probe; None if it is in neither the source nor vlbench."""
    module, _, name = spec.probe.partition(":")
    parts = module.split(".")
    inside = PACKAGE.joinpath(*parts[1:]).with_suffix(".py")
    files = [folder / f"{module}.py" for folder in spec.folders]
    key = f"{module}:" if name else module
    shipped = inside if parts[0] == PACKAGE.name else shipped_probes().get(key)
    files += [shipped] if shipped else []
    return next((file for file in files if file.is_file()), None)


@cache
def shipped_probes() -> Mapping[str, Path]:
    """Return the file of each function of the shipped probes, by its name, and by `FILE:`."""
    probes: dict[str, Path] = {}
    for file in sorted(PACKAGE.glob("probes/*/*.py")):
        for name in re.findall(r"^def (\w+)\(", file.read_text("utf-8"), re.MULTILINE):
            probes |= {name: probes.get(name, file), f"{file.stem}:": file}
    return probes


def probe_names() -> list[str]:
    """Return the public functions of the shipped probes' files, probes and their helpers."""
    return [name for name in shipped_probes() if name[0] != "_" and name[-1] != ":"]


@cache
def _annotations(file: Path) -> Mapping[str, Mapping[str, str | None]]:
    """Return the annotation of each argument of each function, None for an argument without one.

    A protocol of the file is replaced by the capabilities that it joins, separated by ` & `.
    """
    joined = {
        node.name: " & ".join(name for name in map(ast.unparse, node.bases) if name != "Protocol")
        for node in top_level(file, ast.ClassDef)
        if "Protocol" in map(ast.unparse, node.bases)
    }
    return {
        node.name: {
            argument.arg: re.sub(
                r"\w+",
                lambda match: joined.get(match[0]) or match[0],
                ast.unparse(argument.annotation).strip("'\"").removesuffix(" | None"),
            )
            if argument.annotation
            else None
            for argument, _ in with_defaults(node.args)
        }
        for node in top_level(file, ast.FunctionDef)
    }


@cache
def _classes(file: Path) -> Mapping[str, frozenset[str]]:
    """Return the methods of each class whose bases are above it in the file, or in vlbench."""
    imported = {
        alias.name: PACKAGE.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
        for node in top_level(file, ast.ImportFrom)
        if node.module and node.module.startswith(f"{PACKAGE.name}.")
        for alias in node.names
    }
    methods_by_class: dict[str, frozenset[str]] = {}
    classes: Mapping[str, frozenset[str]]
    for node in top_level(file, ast.ClassDef):
        methods = public_methods(node)
        for base in map(ast.unparse, node.bases):
            # `vlbench.engine` is a folder, and an adapter may import a module that does not exist.
            classes = methods_by_class
            if base in imported:
                classes = _classes(imported[base]) if imported[base].is_file() else {}
            if base not in classes:
                break
            methods |= classes[base]
        else:
            methods_by_class[node.name] = methods
    return methods_by_class
