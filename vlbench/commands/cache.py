"""`vlbench cache`: show or prune the cache."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vlbench.catalog.library_names import row_name
from vlbench.commands import FAILED, Answer
from vlbench.commands.parser import add_json
from vlbench.errors import UnknownNameError, counted
from vlbench.report.texts import plain_table
from vlbench.system.cache import Cached, entries, prune, remove
from vlbench.system.files import default_cache

if TYPE_CHECKING:  # `vlbench --help` needs no rich
    from rich.table import Table

UNITS = {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
SECONDS = {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def add_options(cache: argparse.ArgumentParser) -> None:
    """Add the options for the action and the entries."""
    cache.add_argument("do", nargs="?", choices=["show", "prune"], default="show")
    cache.add_argument(
        "--older",
        type=partial(_number, SECONDS, "30d, 12h or 4w"),
        metavar="30d",
        help="entries not used for this long, such as 30d (h, d, w)",
    )
    cache.add_argument("--model", type=row_name, metavar="NAME", help="entries of this model")
    cache.add_argument(
        "--to",
        type=partial(_number, UNITS, "50GB, 500MB or 2TB"),
        metavar="50GB",
        help="the oldest entries, until at most this is left, such as 50GB",
    )
    cache.add_argument("--dry-run", action="store_true", help="print what would be removed")
    cache.add_argument("--cache-dir", type=Path, metavar="DIR", help="default: ~/.cache/vlbench")
    add_json(cache)


def answer(arguments: argparse.Namespace) -> Answer:
    """Return the entries of the cache, or what was removed."""
    folder = arguments.cache_dir or default_cache()
    stored = list(entries(folder))
    limits = {"--older": arguments.older, "--model": arguments.model, "--to": arguments.to}
    options = [name for name, value in limits.items() if value is not None]
    if arguments.do == "show":
        if options or arguments.dry_run:
            raise UnknownNameError(f"{(options or ['--dry-run'])[0]} is for `vlbench cache prune`")
        return _show(folder, stored, as_json=arguments.json)
    if arguments.json:
        raise UnknownNameError("--json is for `vlbench cache show`")
    if not options:
        raise UnknownNameError("pass what to remove: --older 30d, --model NAME or --to 50GB")
    before = None if arguments.older is None else time.time() - arguments.older
    chosen = prune(stored, before=before, model=arguments.model, most=arguments.to)
    if arguments.model is not None and not any(arguments.model in entry.models for entry in stored):
        raise UnknownNameError(f"{folder} has no entry of a model named '{arguments.model}'")
    if arguments.dry_run:
        text = f"{_size(chosen)} would be removed from {folder}; nothing was"
        return Answer([_table(chosen), text])
    held = [entry for entry in chosen if not remove(entry)]
    gone = [entry for entry in chosen if entry not in held]
    left = f"{_size([entry for entry in stored if entry not in gone])} left"
    problems = [f"vlbench: {counted(len(held), 'entry')} not removed: in use, or not from vlbench"]
    lines = [f"removed {_size(gone)} from {folder}, {left}"]
    return Answer(lines, problems if held else [], FAILED if held else 0)


def _show(folder: Path, stored: Sequence[Cached], *, as_json: bool) -> Answer:
    if as_json:
        rows = [{**entry._asdict(), "place": str(entry.place)} for entry in stored]
        return Answer([json.dumps(rows, indent=1)])
    if not stored:
        return Answer([f"{folder} is empty"])
    text = f"{_size(stored)} in {folder}; to remove entries: vlbench cache prune --help"
    return Answer([_table(stored), text])


def _table(stored: Sequence[Cached]) -> Table:
    """Return a table with a line for each model, data and kind of values, the largest first."""
    groups: dict[tuple[str, str, str], list[Cached]] = {}
    for entry in stored:
        data = entry.data.removeprefix("vlbench.data.")
        groups.setdefault((", ".join(entry.models), data, entry.what), []).append(entry)
    ordered = sorted(groups.items(), key=lambda pair: -sum(entry.size for entry in pair[1]))
    rows = [[*names, _size(group), _since(group)] for names, group in ordered]
    return plain_table(["model", "data", "what", "size", "last used"], rows)


def _size(of: Sequence[Cached]) -> str:
    total = sum(entry.size for entry in of)
    unit = next((unit for unit in ("GB", "MB") if total >= UNITS[unit]), "kB")
    return f"{total / UNITS[unit]:,.1f} {unit}"


def _since(of: Sequence[Cached]) -> str:
    hours = (time.time() - max(entry.used for entry in of)) / SECONDS["h"]
    if hours < 2:
        return f"{max(hours, 0) * 60:.0f} min ago"
    return f"{hours / 24:.0f} days ago" if hours >= 48 else f"{hours:.0f} h ago"


def _number(units: dict[str, float], wanted: str, text: str) -> float:
    """Return the seconds in an age such as `30d`, or the bytes in a size such as `50GB`.

    Raises ArgumentTypeError, which says what is `wanted`.
    """
    match = re.fullmatch(rf"(\d+(?:\.\d+)?) ?({'|'.join(units)})", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text:.20}' is not of the form {wanted}")
    return float(match[1]) * units[match[2]]
