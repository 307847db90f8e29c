"""Capabilities of models of the catalog, from the text of their adapters: nothing is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from vlbench.catalog.sources import PACKAGE, capability_files
from vlbench.catalog.specs import ModelSpec


def capabilities_of(spec: ModelSpec) -> list[str] | None:
    """Return the capabilities of a model's adapter; None where its text does not tell.

    That is an adapter that lies in no folder of the source, or that inherits its methods.
    """
    module, _, name = spec.adapter.partition(":")
    files = [folder / f"{module}.py" for folder in spec.folders]
    file = next((file for file in files if file.is_file()), None)
    methods = _classes(file).get(name) if file else None
    if methods is None:
        return None
    known = _protocols(PACKAGE / "capabilities.py")
    for other in capability_files(spec.source):
        known = {**known, **_protocols(other)}
    offered = [capability for capability, wanted in known.items() if wanted <= methods]
    return [one for one in offered if one not in spec.without]


@cache
def _classes(file: Path) -> Mapping[str, frozenset[str]]:
    """Return the methods of each class without bases."""
    return {node.name: _methods(node) for node in _nodes(file) if not node.bases}


@cache
def _protocols(file: Path) -> Mapping[str, frozenset[str]]:
    """Return the methods of each Protocol that has some of its own."""
    found = {node.name: _methods(node) for node in _nodes(file) if "Protocol" in _bases(node)}
    return {name: methods for name, methods in found.items() if methods}


def _nodes(file: Path) -> Iterator[ast.ClassDef]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    yield from (node for node in tree.body if isinstance(node, ast.ClassDef))


def _bases(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(base).rpartition(".")[2] for base in node.bases}


def _methods(node: ast.ClassDef) -> frozenset[str]:
    parts = (part.name for part in node.body if isinstance(part, ast.FunctionDef))
    return frozenset(name for name in parts if name[0] != "_")
