"""Provenance: the code, arguments, weights and data that a row comes from."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import vlbench
from vlbench.catalog.sources import shipped_source
from vlbench.data.pictures import apart_from_regions
from vlbench.data.records import Data
from vlbench.digests import digest
from vlbench.engine.fingerprints import as_path, each_value
from vlbench.identity import library_versions
from vlbench.planning.jobs import Job
from vlbench.planning.models import Model
from vlbench.planning.privacy import shown
from vlbench.resolve import parameters
from vlbench.running.models import LiveModels


class Seen(NamedTuple):
    """Digests of the data and of companions' views of them, and the kind of regions."""

    data: str
    regions: str | None
    views: Mapping[str, Any]


def provenance_of(job: Job, models: LiveModels) -> dict[str, Any]:
    """Return what a row says of its making, the same on every rerun."""
    assert job.data
    live = models.get(job.model)
    # An adapter says what it took where an argument was left to the weights.
    arguments = _with_defaults(job.model.adapter, job.model.arguments) | _settled(live.adapter)
    companions = {
        one.name: models.get(one).weights
        for several in job.task.companions.values()
        for one in several
    }
    return {
        "vlbench": code_version(),
        "adapter": live.source,
        "params": shown_arguments(arguments),
        "weights": shown_weights(arguments, live.weights),
        "data": f"{job.task.spec.data['loader']} {job.data.digest()}",
        "companions": companions,
        "dtype": str(models.dtype).removeprefix("torch."),
        "libraries": library_versions([job.task.probe, type(live.adapter)]),
    }


def _settled(adapter: Any) -> dict[str, Any]:
    """Return the arguments that an adapter chose itself, its `settled`, if it has any."""
    return dict(getattr(adapter, "settled", {}))


def comparable_of(job: Job, models: LiveModels) -> str:
    """Return the digest of what rows must share to be compared."""
    seen = seen_alike(job)
    companions = {
        key: [
            [models.get(one).source, models.get(one).weights, shown_arguments(one.arguments)]
            for one in several
        ]
        for key, several in job.task.companions.items()
    }
    shared: list[Any] = [job.task.fixed, seen.data, companions, seen.regions]
    return digest([*shared, seen.views] if seen.views else shared)


def seen_alike(job: Job) -> Seen:
    """Return what the models of comparable rows see alike.

    Where a task says that regions are the model's own, their kind is none of it; the regions that
    companions read count all the same.
    """
    assert job.data
    if not job.task.spec.own_regions:
        regions = job.model.spec.regions.get("kind") if job.task.regions else None
        return Seen(job.data.digest(), regions, {k: data.digest() for k, data in job.views.items()})
    read = {
        key: [_regions_of(one, job.views.get(one.key, job.data)) for one in several]
        for key, several in job.task.companions.items()
    }
    views = {key: digests for key, digests in read.items() if any(digests)}
    return Seen(apart_from_regions(job.data).digest(), None, views)


def _regions_of(companion: Model, data: Data) -> str | None:
    """Return the digest of the data with the regions that a companion reads, if it reads some."""
    has_some = data.digest() != apart_from_regions(data).digest()
    return data.digest() if has_some and "kind" in companion.spec.regions else None


def shown_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as a row shows them: of local paths only the file's name, no secrets."""
    return {key: shown(each_value(_as_path, value), key) for key, value in arguments.items()}


def shown_weights(arguments: Mapping[str, Any], weights: str) -> str:
    """Return what a row says of the weights: their digest, or `random:<seed>`."""
    random = arguments.get("weights") == "random"
    return f"random:{arguments.get('init_seed', 0)}" if random else weights


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


def _as_path(value: Any) -> Any:
    """Return a text that names a file here as a path; a path stays one, file or not."""
    return value if isinstance(value, Path) else as_path(value)


def _with_defaults(adapter: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments together with the plain defaults of those that were not given."""
    defaults = {name: p.default for name, p in parameters(adapter).items() if name != "device"}
    plain = (bool, int, float, str)
    return {k: v for k, v in defaults.items() if type(v) in plain} | dict(arguments)


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - ours
    return done.stdout.strip()
