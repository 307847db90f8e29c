"""vlbench: what does this model know, and how does it know it."""

import random
from typing import TYPE_CHECKING, Any

from vlbench._version import __version__
from vlbench.errors import VlbenchError

if TYPE_CHECKING:
    from vlbench.api import (
        compare,
        evaluate,
        features,
        frame,
        list_models,
        list_tasks,
        load,
        load_model,
        probe,
        rdm,
    )

__all__ = [
    "VlbenchError",
    "__version__",
    "compare",
    "evaluate",
    "features",
    "frame",
    "list_models",
    "list_tasks",
    "load",
    "load_model",
    "probe",
    "rdm",
]


def __getattr__(name: str) -> Any:
    """Import a function on first use: `import vlbench` must not import torch."""
    if name in __all__:
        state = random.getstate()
        from vlbench import api  # noqa: PLC0415 - imports torch

        # Libraries draw from the user's random generator while they are imported.
        random.setstate(state)
        return getattr(api, name)
    raise AttributeError(f"module 'vlbench' has no attribute '{name}'")


def __dir__() -> list[str]:
    """Return the names for completion in a notebook."""
    return [*__all__]
