"""Sources: folders with tasks/ or model_adapters/ or both; shipped, installed or included."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from vlbench.errors import SpecError

ENTRY_POINTS = "vlbench.sources"

PACKAGE = Path(__file__).resolve().parents[1]

# The folders of boards that are read if a user names none.
RESULTS, PUBLISHED = Path("results"), Path("leaderboards")

# Folders of a source with Python files, besides files at its top.
FOLDERS = ("tasks", "probes", "data", "model_adapters")

Node = TypeVar("Node", ast.ClassDef, ast.FunctionDef, ast.ImportFrom)


def shipped_source() -> Path:
    """Return the folder with vlbench's own tasks: inside a wheel, or beside it in a checkout."""
    return PACKAGE if (PACKAGE / "tasks").is_dir() else PACKAGE.parent


def has_boards(folder: Path) -> bool:
    """Return whether a folder has boards; a run without rows leaves one that has none."""
    return any(folder.glob("*.json"))


def shipped_boards() -> Path | None:
    """Return the folder of vlbench's shipped boards; None if it was installed without them."""
    boards = shipped_source() / "leaderboards"
    return boards if boards.is_dir() else None


def trusted_packages() -> set[str]:
    """Return the packages whose functions any file may name: vlbench and packages of sources."""
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return {PACKAGE.name, *(re.split(r"[.:\s]", point.value)[0] for point in points)}


def find_sources(include: Sequence[Path] = ()) -> list[Path]:
    """Return every source: shipped, of entry points, and included. Raises SpecError."""
    sources = [shipped_source()]
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        where, why = f"entry point '{point.name}'", ""
        try:
            spec = importlib.util.find_spec(point.module)
        except Exception as error:  # noqa: BLE001 - somebody's package, imported if it has a dot
            spec, why = None, f": {type(error).__name__}: {error}"
        if spec is None or not spec.submodule_search_locations:
            raise SpecError(f"{where}: '{point.value}' is not a package{why}")
        sources.append(Path(spec.submodule_search_locations[0]))
    for folder in include:
        if not any((folder / part).is_dir() for part in ("tasks", "model_adapters")):
            raise SpecError(f"{folder}: a source needs a folder tasks/ or model_adapters/")
        sources.append(folder)
    return list(dict.fromkeys(source.resolve() for source in sources))


def capability_files(source: Path) -> dict[Path, Mapping[str, frozenset[str]]]:
    """Return the Python files of a source that define capabilities, with the methods of each.

    A capability is a Protocol that defines a method itself. Files are read as text.
    """
    files = [PACKAGE / "capabilities.py"] if source == shipped_source() else _python_files(source)
    protocols_by_file = {file: _protocols(file) for file in files}
    return {file: protocols for file, protocols in protocols_by_file.items() if protocols}


def _python_files(source: Path) -> list[Path]:
    inside = [file for folder in FOLDERS for file in (source / folder).rglob("*.py")]
    return sorted([*source.glob("*.py"), *inside])


@cache
def _protocols(file: Path) -> Mapping[str, frozenset[str]]:
    """Return the methods of each Protocol that defines some itself."""
    if b"Protocol" not in file.read_bytes():
        return {}
    nodes = [node for node in top_level(file, ast.ClassDef) if _is_protocol(node)]
    return {node.name: methods for node in nodes if (methods := public_methods(node))}


def top_level(file: Path, kind: type[Node]) -> Iterator[Node]:
    """Yield the classes or functions of a file, read as text; none if it is not valid Python."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    yield from (node for node in tree.body if isinstance(node, kind))


def public_methods(node: ast.ClassDef) -> frozenset[str]:
    """Return the public methods that a class defines itself."""
    parts = (part.name for part in node.body if isinstance(part, ast.FunctionDef))
    return frozenset(name for name in parts if name[0] != "_")


def _is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).rpartition(".")[2] == "Protocol" for base in node.bases)
