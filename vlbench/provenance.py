"""Where a row comes from: the code's version, and facts of the run."""

from __future__ import annotations

import datetime as dt
import resource
import subprocess
from pathlib import Path
from typing import Any

import torch

import vlbench
from vlbench.catalog import shipped_source
from vlbench.engine.passes import Place


def run_facts(place: Place, processes: int, seconds: float) -> dict[str, Any]:
    """Return what may differ from one run to the next."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if place.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(place.device) / 2**20
    return {
        "finished": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "device": str(place.device),
        "processes": processes,
        "peak_memory_mb": round(peak),
        "batch_size": place.batch_size,
        "channels_last": place.channels_last,
    }


def code_version() -> str:
    """Return vlbench's version; of a checkout its commit too, `dirty` where that is not all."""
    root = shipped_source()
    if not (root / ".git").exists():
        return vlbench.__version__
    try:
        commit = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", "vlbench", "tasks", "model_adapters")
    except (OSError, subprocess.CalledProcessError):
        return f"{vlbench.__version__}+unknown"
    return f"{vlbench.__version__}+{commit}{'.dirty' if changed else ''}"


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - ours
    return done.stdout.strip()
