"""vlbench: what does this model know, and how does it know it."""

from typing import TYPE_CHECKING, Any

from vlbench import moved  # noqa: F401 - finds old names
from vlbench.errors import VlbenchError

__version__ = "0.2.0"

if TYPE_CHECKING:
    from vlbench.bench import evaluate, frame

__all__ = ["VlbenchError", "__version__", "evaluate", "frame"]


def __getattr__(name: str) -> Any:
    """Import a function when it is asked for: `import vlbench` must not import torch."""
    if name in {"evaluate", "frame"}:
        from vlbench import bench  # noqa: PLC0415 - imports torch

        return getattr(bench, name)
    raise AttributeError(f"module 'vlbench' has no attribute '{name}'")
