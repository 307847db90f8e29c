"""Finds functions and classes that task and model files name, in trusted packages only."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Container, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any

from vlbench.catalog.sources import find_sources
from vlbench.code import plugins
from vlbench.errors import IMPORT_ERRORS, SOURCE_PREFIX, SpecError, ending


def find_object(
    where: Callable[[], str],
    name: str,
    folders: Sequence[Path],
    *,
    shipped: str = "",
    trusted: Container[str] | None = None,
) -> Any:
    """Return the object that a file names, from the file's source or else the object `shipped`.

    Any other object must be in the `trusted` packages; None trusts all. An untrusted name is
    refused before it is imported. Raises SpecError with `where()`, the place of the name, in front.
    """
    module, _, attribute = name.partition(":")
    stem = PurePosixPath(module).stem
    if module.endswith(".py") and any((folder / f"{stem}.py").is_file() for folder in folders):
        raise SpecError(f"{where()}: '{name}' names a file; write '{stem}:{attribute}'")
    try:
        beside = any((folder / f"{module}.py").is_file() for folder in folders)
        whole = name if beside or "." in module else shipped or name
        if trusted is not None and not (beside and _is_inside(module)):
            _require_trusted(whole, trusted)
        loaded = load_object(whole, folders)
        if trusted is not None and not beside and _is_foreign(whole, loaded):
            raise _not_trusted(whole)
    except OSError as error:
        raise SpecError(
            f"{where()}: '{name:.40}...' names a file that cannot be read: {error.strerror}"
        ) from error
    except SpecError as error:
        raise SpecError(f"{where()}: {error}") from error
    return loaded


def load_object(name: str, folders: Sequence[Path]) -> Any:
    """Return the object that `module:name` names.

    `module.py` in one of the folders is loaded from its path; otherwise the module is imported as
    usual. Raises SpecError.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise SpecError(f"'{name}' is not of the form module:name")
    files = [folder / f"{module_name}.py" for folder in folders]
    file = next((file for file in files if file.is_file()), None)
    try:
        module = plugins.load_file(file) if file else importlib.import_module(module_name)
    except IMPORT_ERRORS as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module_name:
            raise SpecError(
                f"no module is named '{module_name}'{_nearest_module(module_name, folders)}"
            ) from error
        raise SpecError(
            f"'{module_name}' cannot be imported: {type(error).__name__}: {error}"
        ) from error
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise SpecError(f"'{module_name}' cannot be imported: {ending(error)}") from error
    if not hasattr(module, attribute):
        near = get_close_matches(attribute, dir(module), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise SpecError(f"'{module_name}' has no '{attribute}'{hint}")
    return getattr(module, attribute)


def names_file(text: str) -> bool:
    """Return whether a text contains FILE.py:Class."""
    return re.search(r"\.py:\w", text) is not None


def require_own_file(where: str, model: str, source: Path) -> None:
    """Raise SpecError for FILE.py:Class that a file of `source` names and that is in no source."""
    file = Path(model.rpartition(":")[0]).resolve()
    sources = (source.resolve(), *find_sources())
    if names_file(model) and not any(file.is_relative_to(folder) for folder in sources):
        raise SpecError(f"{where}: {_not_trusted(model)}")


def _nearest_module(name: str, folders: Sequence[Path]) -> str:
    """Return a hint with the nearest name of a file in the folders, or below the package."""
    package, _, last = name.rpartition(".")
    files = [file for folder in folders for file in folder.glob("*.py")]
    for folder in getattr(sys.modules.get(package), "__path__", ()):
        files += Path(folder).rglob("*.py")
    near = get_close_matches(last, {file.stem for file in files}, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _is_inside(module: str) -> bool:
    """Return whether a name leads to no file outside the folder in which it is looked up."""
    place = PurePosixPath(module)
    return not place.is_absolute() and ".." not in place.parts


def _require_trusted(name: str, packages: Container[str]) -> None:
    """Raise SpecError for an existing module of an untrusted package, without importing it."""
    module, colon, _ = name.partition(":")
    top = module.partition(".")[0]
    of_package = top in packages and not f"{module}.".startswith(SOURCE_PREFIX)
    if module and colon and not of_package and (top in packages or _is_there(top)):
        raise _not_trusted(name)


def _is_there(top: str) -> bool:
    """Return whether a top-level module exists, or may exist; a wrong name is no danger."""
    try:
        return not top.isidentifier() or importlib.util.find_spec(top) is not None
    except ValueError:  # __main__
        return True


def _is_foreign(name: str, value: Any) -> bool:
    """Return whether a name of vlbench stands for an object that another package defines."""
    defined_in = f"{getattr(value, '__module__', None)}."
    return name.startswith(("vlbench.", "vlbench:")) and not defined_in.startswith("vlbench.")


def _not_trusted(name: str) -> SpecError:
    return SpecError(
        f"'{name}' is not trusted: it belongs neither to vlbench, nor to this file's source, nor "
        "to a package registered as a source; if you trust it, pass --trust"
    )
