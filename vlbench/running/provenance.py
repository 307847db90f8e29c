"""Where a row comes from: the code's version, and facts of the run."""

from __future__ import annotations

import datetime as dt
import resource
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import vlbench
from vlbench.catalog.catalog import shipped_source
from vlbench.digests import digest
from vlbench.engine.fingerprints import Known, library_versions, shown_params, shown_weights
from vlbench.engine.passes import Place
from vlbench.planning.jobs import Cell
from vlbench.resolve import parameters


def provenance_of(
    cell: Cell, model: Known, partners: Mapping[str, Sequence[Known]], dtype: str
) -> dict[str, Any]:
    """Return what a row says of its making, the same on every rerun."""
    assert cell.data
    params = with_defaults(cell.model.adapter, cell.model.params(cell.task.spec))
    companions = {
        plan.name: known.weights
        for key, plans in cell.task.companions.items()
        for plan, known in zip(plans, partners[key], strict=True)
    }
    return {
        "vlbench": code_version(),
        "adapter": model.source,
        "params": shown_params(params),
        "weights": shown_weights(params, model.weights),
        "data": f"{cell.task.spec.data['loader']} {cell.data.digest()}",
        "companions": companions,
        "dtype": dtype,
        "libraries": library_versions([cell.task.probe, type(model.adapter)]),
    }


def comparable_of(cell: Cell, partners: Mapping[str, Sequence[Known]]) -> str:
    """Return the digest of what rows must share to be compared."""
    assert cell.data
    regions = cell.model.spec.regions.get("kind") if cell.task.regions else None
    companions = {
        key: [
            [k.source, k.weights, shown_params(p.params())]
            for p, k in zip(plans, known, strict=True)
        ]
        for key, plans in cell.task.companions.items()
        for known in [partners[key]]
    }
    return digest([cell.task.fixed, cell.data.digest(), companions, regions])


def with_defaults(adapter: type, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments together with the defaults of those that were not given."""
    known = {name: p.default for name, p in parameters(adapter).items()}
    plain = (bool, int, float, str)
    return {k: v for k, v in known.items() if type(v) in plain and k != "device"} | dict(params)


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
