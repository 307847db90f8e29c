"""Moved public names: old names work for one more release, with a warning.

`MOVED` is the only table. The finder below finds modules that no longer exist, and names in YAML
are resolved by `current`.
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

# Old and new `module:name`; for an adapter, the name in models.yaml.
MOVED: dict[str, str] = {}


def current(name: str) -> str:
    """Return the new name of a moved `module:name`, with a FutureWarning."""
    old, new = name.replace(":", "."), MOVED[name].replace(":", ".")
    message = f"{old} is now {new}; the old name goes with the next release"
    warnings.warn(message, FutureWarning, stacklevel=3)
    return MOVED[name]


def modules(module: str) -> list[str]:
    """Return the modules that now have the names of a removed module; empty for any other."""
    moved = (new for old, new in MOVED.items() if old.startswith(f"{module}:"))
    return sorted({new.partition(":")[0] for new in moved})


class _Finder(MetaPathFinder):
    """Finds removed modules. It comes last, so existing modules are found first."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a removed module, or a package that contained one."""
        del path, target
        if any(old.startswith((f"{fullname}:", f"{fullname}.")) for old in MOVED):
            return ModuleSpec(fullname, _Loader(), is_package=True)
        return None


class _Loader(Loader):
    """Makes an empty module, which looks up names in the table on access."""

    def exec_module(self, module: ModuleType) -> None:
        """Let the module return the moved objects."""

        def moved(name: str) -> Any:
            old = f"{module.__name__}:{name}"
            if old not in MOVED:
                raise AttributeError(f"module '{module.__name__}' has no attribute '{name}'")
            new, _, attribute = current(old).partition(":")
            return getattr(import_module(new), attribute)

        module.__dict__["__getattr__"] = moved


sys.meta_path.append(_Finder())
