"""`vlbench check`: loads an adapter and tests the promises of its capabilities."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vlbench.capabilities import capabilities_in
from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.sources import capability_files, find_sources, shipped_source
from vlbench.check import Finding, check_adapter
from vlbench.engine.processes import Processes, verdict
from vlbench.errors import VlbenchError
from vlbench.planning.models import resolve_model
from vlbench.planning.options import Options
from vlbench.plugins import load_file
from vlbench.running.models import LiveModels


def check_model(name: str, options: Options) -> list[Finding]:
    """Return the findings on a model's adapter; one that does not load has that as its finding.

    Raises VlbenchError for a name or a file that is wrong, and for weights that cannot be had.
    """
    settings = options.settings()
    model = resolve_model(load_catalog(options.include_path), name, options)
    try:
        adapter = LiveModels(settings, Processes(cpu=True)).get(model).adapter
    except VlbenchError:
        raise
    except Exception as error:  # noqa: BLE001 - somebody's adapter: that it does not load is found
        return [Finding(name, "does not load", ok=False, why=verdict(error).value)]
    return check_adapter(
        adapter,
        without=model.spec.without,
        device=settings.device,
        region_width=model.spec.regions.get("width", 2048),
        others=_own_capabilities([*find_sources(options.include_path), model.spec.source]),
    )


def _own_capabilities(sources: Sequence[Path]) -> list[type]:
    """Return the capabilities that the files of sources define, less vlbench's own."""
    others = [source for source in dict.fromkeys(sources) if source != shipped_source()]
    files = [file for source in others for file in capability_files(source)]
    return [found for file in dict.fromkeys(files) for found in capabilities_in(load_file(file))]
