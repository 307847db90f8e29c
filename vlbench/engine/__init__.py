"""The engine: devices, processes, batches and the store of what models have computed."""

from vlbench.engine.engine import Engine
from vlbench.engine.progress import NoProgress, Progress

__all__ = ["Engine", "NoProgress", "Progress"]
