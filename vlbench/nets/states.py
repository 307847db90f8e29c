"""States of a training, as they are stored: whatever device it runs on."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def on_cpu(value: Any) -> Any:
    """Return a state, of tensors in dictionaries and lists, with all its tensors on the CPU."""
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, dict):
        return {key: on_cpu(item) for key, item in value.items()}
    return [on_cpu(item) for item in value] if isinstance(value, list) else value
