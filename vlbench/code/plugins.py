"""Loads files of a source from their paths, with `sys.path` unchanged.

A folder is loaded as the package `vlbench.code.plugins.<its path in hexadecimal>`, so its files may
import each other, and objects that they define can be pickled: another process finds them by the
same name. A file may write `import network` or `from . import network` for the `network.py` beside
it. For `import network`, an installed library of the same name comes first:
`model_adapters/open_clip.py` imports the library open_clip.
"""

from __future__ import annotations

import builtins
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from vlbench.errors import SOURCE_PREFIX

# A module with this attribute is a package; the finder below finds its parts.
__path__: list[str] = []


def load_file(file: Path) -> ModuleType:
    """Return a Python file as a module, executed once however often it is loaded."""
    path = file.resolve()
    return importlib.import_module(f"{_package(path.parent)}.{_escaped(path.stem)}")


def folder_of(module: str) -> Path | None:
    """Return the folder from which `load_file` loaded a module; None for any other module."""
    name = module.removeprefix(SOURCE_PREFIX).partition(".")[0]
    if not module.startswith(SOURCE_PREFIX):
        return None
    try:
        return Path(os.fsdecode(bytes.fromhex(name)))
    except ValueError:
        return None


def file_in(folder: Path, names: Sequence[str]) -> Path | None:
    """Return the file of the module `names[0].names[1]...` below a folder, if it exists."""
    place = folder.joinpath(*names)
    files = [place / "__init__.py"]
    if names:
        files.insert(0, place.with_name(f"{place.name}.py"))
    return next((file for file in files if file.is_file()), None)


def _package(folder: Path) -> str:
    return SOURCE_PREFIX + os.fsencode(folder).hex()


def _escaped(stem: str) -> str:
    """Return a file's stem as part of a module's name, in which a dot would separate packages."""
    return stem.replace("%", "%25").replace(".", "%2e")


def _unescaped(part: str) -> str:
    return part.replace("%2e", ".").replace("%25", "%")


class _Finder(MetaPathFinder):
    """Finds folders and their files by the names that `load_file` gives them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module of this package; None for any other."""
        del path, target
        folder = folder_of(fullname)
        if folder is None:
            return None
        names = [_unescaped(part) for part in fullname.removeprefix(SOURCE_PREFIX).split(".")[1:]]
        file = file_in(folder, names) if names else None
        if file is None:
            return _of_folder(fullname, folder.joinpath(*names))
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, str(file)))


def _of_folder(name: str, folder: Path) -> ModuleSpec | None:
    """Return how to load a folder as a package, without executing its `__init__.py`."""
    if not folder.is_dir():
        return None
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    return spec


class _Loader(SourceFileLoader):
    """Executes a file whose `import` statements also find files beside it."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the file with another `__import__`."""
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
        super().exec_module(module)


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names that Python calls it with
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """Import as usual; a name that is not installed is looked up beside the importing file."""
    top = name.partition(".")[0]
    try:
        return builtins.__import__(name, globals, locals, fromlist or (), level)
    except ModuleNotFoundError as error:
        folder = folder_of(str((globals or {}).get("__name__", "")))
        if level or error.name != top or folder is None or not _is_there(folder, top):
            raise
    package = _package(folder)
    module = builtins.__import__(f"{package}.{name}", globals, locals, fromlist or (), 0)
    return module if fromlist else sys.modules[f"{package}.{top}"]


def _is_there(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


# Inserted at import, since a process that unpickles an object of a file imports this module only by
# name. First in the list, since Python's finders would execute a file without the `__import__`
# above.
sys.meta_path.insert(0, _Finder())
