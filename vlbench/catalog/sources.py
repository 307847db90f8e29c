"""Sources: folders with tasks/ and/or model_adapters/, shipped, installed or included."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from vlbench.errors import SpecError

ENTRY_POINTS = "vlbench.sources"

PACKAGE = Path(__file__).resolve().parents[1]

# Where a source keeps Python files, beside those at its top.
FOLDERS = ("tasks", "probes", "data", "model_adapters")


def shipped_source() -> Path:
    """Return the folder with vlbench's own tasks: inside a wheel, or beside it in a checkout."""
    return PACKAGE if (PACKAGE / "tasks").is_dir() else PACKAGE.parent


def trusted_packages() -> set[str]:
    """Return the packages whose functions any file may name: vlbench's and those of sources."""
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    return {PACKAGE.name, *(re.split(r"[.:\s]", point.value)[0] for point in points)}


def find_sources(include: Sequence[Path] = ()) -> list[Path]:
    """Return every source: shipped, of entry points, and included. Raises SpecError."""
    found = [shipped_source()]
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        where, why = f"entry point '{point.name}'", ""
        try:
            spec = importlib.util.find_spec(point.module)
        except Exception as error:  # noqa: BLE001 - somebody's package, imported if it has a dot
            spec, why = None, f": {type(error).__name__}: {error}"
        if spec is None or not spec.submodule_search_locations:
            raise SpecError(f"{where}: '{point.value}' is not a package{why}")
        found.append(Path(spec.submodule_search_locations[0]))
    for folder in include:
        if not any((folder / part).is_dir() for part in ("tasks", "model_adapters")):
            raise SpecError(f"{folder}: a source has a folder tasks/ or model_adapters/")
        found.append(folder)
    return list(dict.fromkeys(source.resolve() for source in found))


def capability_files(source: Path) -> dict[Path, list[str]]:
    """Return the Python files of a source that define capabilities, with the names of these.

    A capability is a Protocol with a method of its own. Files are read as text.
    """
    files = [PACKAGE / "capabilities.py"] if source == shipped_source() else _python_files(source)
    found = {file: list(_protocols(file)) for file in files}
    return {file: names for file, names in found.items() if names}


def _python_files(source: Path) -> list[Path]:
    inside = [file for folder in FOLDERS for file in (source / folder).rglob("*.py")]
    return sorted([*source.glob("*.py"), *inside])


def _protocols(file: Path) -> Iterator[str]:
    """Yield the names of the Protocols with methods; a file that is no Python has none."""
    text = file.read_bytes()
    if b"Protocol" not in text:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and _is_protocol(node):
            yield node.name


def _is_protocol(node: ast.ClassDef) -> bool:
    protocol = any(ast.unparse(base).rpartition(".")[2] == "Protocol" for base in node.bases)
    methods = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
    return protocol and any(name[0] != "_" for name in methods)
