"""The engine: devices, processes, batches and the store of model outputs."""

from vlbench.engine.engine import Engine
from vlbench.engine.progress import NoProgress, Progress
from vlbench.engine.shards import Features

__all__ = ["Engine", "Features", "NoProgress", "Progress"]
