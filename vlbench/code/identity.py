"""Identity of code: a digest of all code that a function or a class can reach by its imports.

Files of vlbench, of a source, and other files that are not installed as libraries are read as text;
imports inside functions count, and nothing is executed. Docstrings, comments and layout do not
count, nor do `errors.py`, `system/threads.py` and `engine/progress.py`, which change no value.
Libraries count by their versions.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import re
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vlbench.code import plugins
from vlbench.system.digests import bytes_digest, digest, file_digests

PACKAGE = Path(__file__).resolve().parents[1]

# Nothing in these files changes a value.
IGNORED = frozenset(
    PACKAGE / name
    for name in (
        "__init__.py",
        "_version.py",
        "errors.py",
        "system/threads.py",
        "engine/progress.py",
    )
)

# Any value depends on these libraries, whether its code imports them or not.
ALWAYS = ("torch", "numpy", "PIL")

# Nodes with docstrings, and nodes that contain statements: a walk over only these is fast.
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)

# `ast.dump` gives different texts for the same code in different versions of Python.
HOW = f"code {sys.version_info.major}.{sys.version_info.minor}, 2"

# The number of folders up from which an import starts (0: an absolute name), and the module's name.
Import = tuple[int, str]


# The files that code reaches, each with its digest, and the libraries that they import.
Reached = tuple[dict[Path, str], set[str]]


def code_digest(thing: Any) -> str | None:
    """Return the digest of all code that a function, method, class or callable object reaches.

    It includes versions of libraries. None if no file defines it (a notebook, a prompt).
    """
    files = reached(thing)
    # With the names, since two files may exchange their content.
    named = {(file.name, content) for file, content in files[0].items()} if files else ()
    return files and digest([sorted(named), _versions(files[1])])


def source_digest(thing: Any) -> str | None:
    """Return the digest of the reached files outside vlbench's package.

    For an adapter, these are its file and the files of the same source that it imports.
    """
    files = reached(thing)
    return files and digest(sorted({d for f, d in files[0].items() if not _is_of_vlbench(f)}))


def library_versions(things: Iterable[Any]) -> dict[str, str]:
    """Return the version of each installed library that things reach, and of torch."""
    reaches = [reached(thing) for thing in things]
    return _versions(set().union(*(reach[1] for reach in reaches if reach)))


def reached(thing: Any) -> Reached | None:
    """Return the files and libraries a function or class reaches; None if no file defines it."""
    starts, libraries = [], set()
    for part in _parts(thing):
        (file, folder), top = _start(part), (part.__module__ or "").partition(".")[0]
        if file and (plugins.folder_of(part.__module__) or not _is_installed(file)):
            starts.append((file, folder))
        elif file or (top != "__main__" and _place(top)[1]):
            libraries.add(top)
        else:
            return None
    return _walk(starts, libraries)


def _parts(thing: Any) -> list[Any]:
    """Return the functions and classes that make up a callable, except those of Python itself."""
    if isinstance(thing, functools.partial):
        return _parts(thing.func)
    if inspect.ismethod(thing):
        return [thing.__func__, *_parts(thing.__self__)]
    if not isinstance(thing, type) and not inspect.isroutine(thing):
        return _parts(type(thing))
    kinds = thing.__mro__ if isinstance(thing, type) else [thing]
    standard = sys.stdlib_module_names - {"__main__"}
    return [kind for kind in kinds if (kind.__module__ or "").partition(".")[0] not in standard]


def _start(thing: Any) -> tuple[Path | None, Path]:
    """Return the file that defines a thing, and the folder for its absolute imports."""
    if isinstance(thing, type) and _is_typed_in(thing):
        return None, Path()
    try:
        # For a decorated function, the file is that of the function itself, which imports the
        # decorator.
        file = Path(inspect.getsourcefile(inspect.unwrap(thing)) or "").resolve()
    except (TypeError, OSError):
        return None, Path()
    folder = plugins.folder_of(thing.__module__ or "") or file.parent
    return (file if file.is_file() else None), folder


def _is_typed_in(kind: type) -> bool:
    """Return whether a class was typed at a prompt or in a cell, even if a script started it.

    `inspect` gives the script as the file of every class of `__main__`. Methods that a decorator
    such as `dataclass` generates have no file either, but their code has a different qualified
    name.
    """
    if kind.__module__ != "__main__":
        return False
    try:
        inspect.getsource(kind)
    except (OSError, TypeError):
        return True  # the script has no such class
    codes = [getattr(method, "__code__", None) for method in vars(kind).values()]
    return any(
        code.co_qualname.startswith(f"{kind.__qualname__}.")
        and not Path(code.co_filename).is_file()
        for code in codes
        if code
    )


def _walk(starts: Sequence[tuple[Path, Path]], libraries: set[str]) -> Reached:
    """Return everything reached from files, each with its folder, and from libraries."""
    files: dict[Path, str] = {}
    waiting = [*starts]
    while waiting:
        file, folder = waiting.pop()
        if file in files or file in IGNORED:
            continue
        stat = file.stat()
        state = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        files[file], targets, others = _read(file, folder, *state)
        waiting += [(target, folder) for target in targets]
        libraries |= others
    return files, libraries


@functools.cache
def _read(file: Path, folder: Path, *_: int) -> tuple[str, set[Path], set[str]]:
    """Return the digest of a file's code, and its imports; size and times are for the cache."""
    (text,) = file_digests([file], HOW, _parse)
    code, imports = json.loads(text)
    resolved = [_resolve((level, name), file, folder) for level, name in imports]
    files = {target for targets, _ in resolved for target in targets}
    return code, files, {library for _, library in resolved if library}


def _parse(file: Path) -> str:
    """Return a file's digest and imports as JSON; invalid Python counts byte by byte."""
    try:
        source = file.read_bytes()
        tree = ast.parse(source, str(file))
    except (SyntaxError, ValueError):
        return json.dumps([bytes_digest(file), []])
    # Expressions are searched only for calls of `import_module`.
    below = ast.AST if b"import_module" in source else STATEMENTS
    imports = sorted(set(_imports(tree, below)))
    _drop_docstrings(tree)
    return json.dumps([hashlib.sha256(ast.dump(tree).encode()).hexdigest(), imports])


def _drop_docstrings(node: ast.AST) -> None:
    """Remove every docstring at and below a node; other expressions stay."""
    if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
        node.body = node.body[1:]
    for child in ast.iter_child_nodes(node):
        if isinstance(child, STATEMENTS):
            _drop_docstrings(child)


def _imports(node: ast.AST, below: type | tuple[type, ...]) -> Iterator[Import]:
    """Yield every import in nodes of some kinds, except imports only for type checkers."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, below):
            continue
        if isinstance(child, ast.If) and _is_for_type_checkers(child.test):
            yield from _imports(ast.Module(child.orelse, []), below)
            continue
        yield from _imports_of(child)
        yield from _imports(child, below)


def _is_for_type_checkers(test: ast.expr) -> bool:
    name = ast.unparse(test) if isinstance(test, ast.Name | ast.Attribute) else ""
    return name.endswith("TYPE_CHECKING")


def _imports_of(node: ast.AST) -> Iterator[Import]:
    """Yield the imports of a statement or call; a name imported from a module may be a module."""
    if isinstance(node, ast.Import):
        yield from ((0, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        yield node.level, base
        yield from ((node.level, f"{base}.{a.name}".lstrip(".")) for a in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        named = node.args[0] if node.args else None
        if isinstance(named, ast.Constant) and isinstance(named.value, str):
            yield 0, named.value


def _resolve(imported: Import, file: Path, folder: Path) -> tuple[list[Path], str]:
    """Return the files that an import executes, and the library that it names, if any."""
    level, name = imported
    names = name.split(".") if name else []
    if level:
        return _along(file.parents[level - 1], names), ""
    top = names[0]
    if top in sys.stdlib_module_names:
        return [], ""
    root, library = _place(top)
    if library:
        return [], top
    return _along(root or folder, names), ""


def _along(root: Path, names: Sequence[str]) -> list[Path]:
    """Return the file of a module below a folder, and the files of its parent packages."""
    steps = [plugins.file_in(root, names[: i + 1]) for i in range(len(names))]
    return [step for step in steps if step]


@functools.cache
def _place(top: str) -> tuple[Path | None, bool]:
    """Return the folder of a top-level name, and whether it is an installed library."""
    if top == PACKAGE.name:
        return PACKAGE.parent, False
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return None, False
    file = Path(spec.origin or next(iter(spec.submodule_search_locations or ()), "")).resolve()
    if _is_installed(file):
        return None, True
    package = spec.submodule_search_locations is not None and file.name == "__init__.py"
    return (file.parent.parent if package else file.parent), False


@functools.cache
def _library_folders() -> tuple[Path, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    sites = [*site.getsitepackages(), site.getusersitepackages()]
    return tuple(Path(path).resolve() for path in [*paths, *sites])


def _is_installed(file: Path) -> bool:
    """Return whether a file belongs to an installed library or to Python itself."""
    ours = file.is_relative_to(PACKAGE)
    return not ours and any(file.is_relative_to(folder) for folder in _library_folders())


def _is_of_vlbench(file: Path) -> bool:
    """Return whether a file is vlbench's; shipped adapters count as a source, also in a wheel."""
    return file.is_relative_to(PACKAGE) and not file.is_relative_to(PACKAGE / "model_adapters")


def _versions(libraries: Iterable[str]) -> dict[str, str]:
    versions = {name: _version(name) for name in sorted({*libraries, *ALWAYS})}
    return {name: version for name, version in versions.items() if version}


@functools.cache
def _version(package: str) -> str:
    """Return the version of the distribution of a top-level package; empty if it has none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        distributions = importlib.metadata.distributions()
    return next((part.version for part in distributions if _contains(part, package)), "")


def _contains(distribution: importlib.metadata.Distribution, package: str) -> bool:
    """Return whether a distribution installs a top-level package.

    Unlike `packages_distributions`, it does not parse the metadata of all packages (0.4 s for a
    hundred).
    """
    if declared := (distribution.read_text("top_level.txt") or "").split():
        return package in declared
    files = distribution.read_text("RECORD") or ""
    return bool(re.search(rf"^{re.escape(package)}(/[^,\n]*)?\.py,", files, re.MULTILINE))
