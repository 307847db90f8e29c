"""Names that were promised and have moved: old ones work for one more release, with a warning.

`MOVED` is the one table. Python finds a module that is gone by the finder below, and YAML is
resolved through `current`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# `module:name` as it was and as it is; of an adapter, as models.yaml names it.
MOVED: dict[str, str] = {}


def current(name: str) -> str:
    """Return the name that a moved `module:name` has now, with a FutureWarning."""
    old, new = name.replace(":", "."), MOVED[name].replace(":", ".")
    message = f"{old} is now {new}; the old name goes with the next release"
    warnings.warn(message, FutureWarning, stacklevel=3)
    return MOVED[name]


def modules(module: str) -> list[str]:
    """Return the modules that now hold the names of a module that is gone; empty for any other."""
    moved = (new for old, new in MOVED.items() if old.startswith(f"{module}:"))
    return sorted({new.partition(":")[0] for new in moved})


class _Finder(MetaPathFinder):
    """Finds modules that are gone. It comes last, so that what is there is found first."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module that is gone, or a package that held one."""
        del path, target
        if any(old.startswith((f"{fullname}:", f"{fullname}.")) for old in MOVED):
            return ModuleSpec(fullname, _Loader(), is_package=True)
        return None


class _Loader(Loader):
    """Makes an empty module, which looks names up in the table when they are asked for."""

    def exec_module(self, module: ModuleType) -> None:
        """Let the module answer with what has moved."""

        def moved(name: str) -> Any:
            old = f"{module.__name__}:{name}"
            if old not in MOVED:
                raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
            new, _, attribute = current(old).partition(":")
            return getattr(import_module(new), attribute)

        module.__dict__["__getattr__"] = moved


sys.meta_path.append(_Finder())
