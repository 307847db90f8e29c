"""`vlbench check`: check that an adapter keeps the contract."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vlbench.catalog.catalog import load_catalog
from vlbench.catalog.sources import capability_files, find_sources, shipped_source
from vlbench.code.plugins import load_file
from vlbench.commands import FAILED, Answer
from vlbench.commands.parser import add_dtype, add_model, options_of
from vlbench.errors import Exited, VlbenchError, exits_as_errors

if TYPE_CHECKING:  # these import torch
    from vlbench.check import PromiseCheck
    from vlbench.run.options import Options


def add_options(check: argparse.ArgumentParser) -> None:
    """Add the options for the model and how it is loaded."""
    check.add_argument("model", metavar="MODEL")
    add_model(check)
    add_dtype(check)


def answer(arguments: argparse.Namespace) -> Answer:
    """Print a line for each requirement met, and for each cause of unmet requirements."""
    load_catalog(arguments.include_path).require([arguments.model])  # before torch is imported
    from vlbench.bench import set_up
    from vlbench.system.console import open_console, say

    with set_up(options_of(arguments)) as (options, _):
        checks = check_model(arguments.model, options)
    console = open_console()
    for line in lines_of(checks):
        say(console, line)
    return Answer(code=0 if checks and all(check.ok for check in checks) else FAILED)


def check_model(name: str, options: Options) -> list[PromiseCheck]:
    """Return the checks of a model's adapter; if it does not load, that is a failed check, too.

    Raises VlbenchError for a wrong name or file, and for weights that are not available.
    """
    from vlbench.capabilities import RegionEncoder
    from vlbench.catalog.missing_capabilities import half_offered_by
    from vlbench.check import PromiseCheck, check_adapter
    from vlbench.engine.processes import Processes, verdict
    from vlbench.run.live_models import LiveModels
    from vlbench.run.model import ENCODE_BY, fit, resolve_model

    settings = options.settings()
    model = resolve_model(load_catalog(options.include_path), name, options)
    pairs = [fit(model, RegionEncoder)] if ENCODE_BY in options.model_args else []
    lacks = [
        PromiseCheck("RegionEncoder", "is available", ok=False, why=f"the model has no {gap}")
        for _, gap in pairs
        if gap
    ]
    try:
        with exits_as_errors():
            models = LiveModels(settings, Processes(cpu=True))
            whole = [model, *(fitted for fitted, gap in pairs if not gap)]
            adapters = [models.get(part).adapter for part in whole]
    except Exited as error:
        return [PromiseCheck(name, "does not load", ok=False, why=str(error))]
    except VlbenchError:
        raise
    except Exception as error:  # noqa: BLE001 - somebody's adapter: that it does not load is found
        return [PromiseCheck(name, "does not load", ok=False, why=verdict(error).value)]
    without = model.spec.without
    others = _own_capabilities([*find_sources(options.include_path), model.spec.source])
    checks = lacks + [
        check
        for adapter in adapters
        for check in check_adapter(
            adapter,
            without=without,
            device=settings.device,
            dtype=settings.dtype,
            region_width=model.spec.regions.get("width", 2048),
            others=others,
        )
    ]
    half = half_offered_by(type(adapters[0]), without, others)
    checks += [PromiseCheck(part, "is incomplete", ok=False, why=gap) for part, gap in half.items()]
    return checks or [PromiseCheck(name, "has no capability", ok=False, why=_none(model.adapter))]


def lines_of(checks: Sequence[PromiseCheck]) -> list[str]:
    """Return a line for each passed check, and a line for each cause of failed checks.

    A further line lists the other checks that fail for the same cause.
    """
    broken: dict[tuple[str, ...], list[PromiseCheck]] = {}
    for check in checks:
        if not check.ok:
            key = (check.cause,) if check.cause else (check.what, check.why)
            broken.setdefault(key, []).append(check)
    lines = [f"ok     {check.capability}: {check.what}" for check in checks if check.ok]
    for first, *rest in broken.values():
        lines.append(f"FAILED {first.capability}: {first.what}: {first.why}")
        whats: dict[str, list[str]] = {}
        for other in rest:
            whats.setdefault(other.capability, []).append(other.what)
        lines += [
            f"       the same problem breaks {len(what)} more of {name}: {'; '.join(what)}"
            for name, what in whats.items()
        ]
    return lines


def _none(adapter: type) -> str:
    """Return the message that an adapter has no capability, with example methods."""
    from vlbench.capabilities import ImageEncoder
    from vlbench.catalog.missing_capabilities import signatures

    methods = " and ".join(signatures(ImageEncoder))
    return f"{adapter.__name__} has the methods of no capability; an ImageEncoder has {methods}"


def _own_capabilities(sources: Sequence[Path]) -> list[type]:
    """Return the capabilities that the files of sources define, except vlbench's."""
    from vlbench.capabilities import capabilities_in

    others = [source for source in dict.fromkeys(sources) if source != shipped_source()]
    files = dict.fromkeys(file for source in others for file in capability_files(source))
    return [kind for file in files for kind in capabilities_in(load_file(file))]
