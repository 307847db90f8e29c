"""Functions that files name, found where they may come from without anybody's word for them.

A task or a model's line may name what its own source has, what vlbench has, and what packages have
that registered as sources. Anything else is refused before it is imported, unless the user trusts.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Container, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import vlbench
from vlbench import plugins
from vlbench.catalog.sources import find_sources
from vlbench.errors import SpecError
from vlbench.resolve import blamed_on, load_object


def find_object(
    where: str,
    name: str,
    folders: Sequence[Path],
    *,
    package: str = "",
    trusted: Container[str] | None = None,
) -> Any:
    """Return the object that a file names, from the file's own source or else from `package`.

    Anything else must lie in the packages `trusted`; None: in any. What is not trusted is refused
    before it is imported. Raises SpecError with `where` in front.
    """
    module = name.partition(":")[0]
    try:
        beside = any((folder / f"{module}.py").is_file() for folder in folders)
    except OSError as error:
        raise SpecError(f"{where}: '{name:.40}...' names no file: {error.strerror}") from error
    whole = name if beside or "." in module else package + name
    with blamed_on(where):
        if trusted is not None and not (beside and _is_inside(module)):
            _require_trusted(whole, trusted)
        found = load_object(whole, folders)
        if trusted is not None and not beside and _is_foreign(whole, found):
            raise SpecError(_not_trusted(whole))
        return found


def names_file(text: str) -> bool:
    """Return whether FILE.py:Class stands in a text."""
    return re.search(r"\.py:\w", text) is not None


def require_own_file(where: str, model: str, source: Path) -> None:
    """Raise SpecError for FILE.py:Class that a file of `source` names and no source holds."""
    file = Path(model.rpartition(":")[0]).resolve()
    sources = (source.resolve(), *find_sources())
    if names_file(model) and not any(file.is_relative_to(one) for one in sources):
        raise SpecError(f"{where}: {_not_trusted(model)}")


def _is_inside(module: str) -> bool:
    """Return whether a name leads to no file outside the folder that it is looked up in."""
    place = PurePosixPath(module)
    return not place.is_absolute() and ".." not in place.parts


def _require_trusted(name: str, packages: Container[str]) -> None:
    """Raise SpecError for a module that is there and of no trusted package; import nothing."""
    module, colon, _ = name.partition(":")
    top = module.partition(".")[0]
    of_package = top in packages and not f"{module}.".startswith(plugins.PREFIX)
    if module and colon and not of_package and (top in packages or _is_there(top)):
        raise SpecError(_not_trusted(name))


def _is_there(top: str) -> bool:
    """Return whether a top-level module can be imported, or may be: a wrong name is no danger."""
    try:
        return not top.isidentifier() or importlib.util.find_spec(top) is not None
    except ValueError:  # __main__
        return True


def _is_foreign(name: str, found: Any) -> bool:
    """Return whether a name of vlbench stands for what another package defines."""
    ours = f"{vlbench.__name__}."
    defined_in = f"{getattr(found, '__module__', None)}."
    return name.replace(":", ".").startswith(ours) and not defined_in.startswith(ours)


def _not_trusted(name: str) -> str:
    return (
        f"'{name}' is not trusted: it belongs neither to vlbench, nor to this file's source, nor "
        "to a package registered as a source; if you know what it does, pass --trust"
    )
