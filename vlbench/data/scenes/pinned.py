"""Pinned digests of the default worlds: their content is known before they are drawn.

pinned.json holds the digest of each column for seed 0 of this VERSION, and what it was drawn with.
`scripts/pin_scenes.py` writes it.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import PIL

from vlbench.data.scenes.world import VERSION

FILE = Path(__file__).with_name("pinned.json")


def pinned_digests(configuration: str, seed: int) -> dict[str, str] | None:
    """Return the digest of each column of a configuration.

    None where another version or seed is asked for, or where other libraries are installed: their
    drawing may differ.
    """
    pinned = json.loads(FILE.read_text("utf-8"))
    if (pinned["version"], pinned["seed"], pinned["drawn_with"]) != (VERSION, seed, drawn_with()):
        return None
    digests: dict[str, str] | None = pinned["digests"].get(configuration)
    return digests


def drawn_with() -> dict[str, str]:
    """Return the installed versions of what decides the content of a drawing."""
    return {
        "numpy": np.__version__,
        "pillow": PIL.__version__,
        # Sines and cosines differ in their last bit between processors.
        "machine": platform.machine(),
    }
