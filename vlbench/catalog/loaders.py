"""Loaders by their bare names, found in the text of files without importing them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from vlbench.catalog.sources import PACKAGE, top_level
from vlbench.errors import SpecError, unknown


def is_loader(node: ast.FunctionDef) -> bool:
    """Return whether a function is a loader: it returns Data, and takes only keyword arguments.

    A function with positional arguments is a part of a loader.
    """
    return returned_type(node) == "Data" and not node.args.args


def returned_type(node: ast.FunctionDef) -> str:
    """Return the last word of a function's return annotation; empty if it has none."""
    returned = ast.unparse(node.returns).strip("'\"") if node.returns else ""
    return returned.rpartition(".")[2]


def full_loader(name: str, folders: Sequence[Path], where: str) -> str:
    """Return `module:function` of a loader that a task names by its bare name, at `where`.

    It is the function of a file of the same name in the folders, or else the shipped loader of that
    name. Raises SpecError for no loader or several.
    """
    # The tasks of an installed wheel have vlbench's folders, whose files are imported.
    others = [folder for folder in folders if not folder.is_relative_to(PACKAGE)]
    stems = {file.stem for folder in others for file in folder.glob("*.py")}
    if name in stems:
        return f"{name}:{name}"
    shipped = shipped_loaders()
    full = shipped.get(name, [])
    if len(full) > 1:
        raise SpecError(
            f"{where}: '{name}' is the name of {' and '.join(full)}; write the full name"
        )
    if not full:
        every = [loader for group in shipped.values() for loader in group]
        inside = [loader for loader in every if loader.partition(":")[0].endswith(f".{name}")]
        if inside:
            raise SpecError(f"{where}: no loader is named '{name}'; write {' or '.join(inside)}")
        raise SpecError(f"{where}: {unknown('loader', name, {*shipped, *stems})}")
    return full[0]


@cache
def shipped_loaders() -> Mapping[str, Sequence[str]]:
    """Return the full names of the shipped loaders by their bare names."""
    loaders: dict[str, list[str]] = {}
    for file in sorted((PACKAGE / "data").rglob("*.py")):
        module = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        for node in filter(is_loader, top_level(file, ast.FunctionDef)):
            loaders.setdefault(node.name, []).append(f"{module}:{node.name}")
    return loaders
