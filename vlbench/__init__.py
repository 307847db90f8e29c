"""vlbench: what does this model know, and how does it know it."""

from typing import TYPE_CHECKING, Any

from vlbench.errors import VlbenchError

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vlbench.bench import evaluate

__all__ = ["VlbenchError", "__version__", "evaluate"]


def __getattr__(name: str) -> Any:
    """Import `evaluate` when it is asked for: `import vlbench` must not import torch."""
    if name == "evaluate":
        from vlbench.bench import evaluate  # noqa: PLC0415 - imports torch

        return evaluate
    raise AttributeError(f"module 'vlbench' has no attribute '{name}'")
