"""Loads every model of the catalog, every data set that can be downloaded, and repeats papers.

Of each paper it runs the smallest row of `vlbench papers`. It lists what fails.

Prints Markdown: what no longer loads, then what needs files by hand. Exits with 1 if something that
should load does not. Each is tried in a process of its own, so that one cannot take the rest along.

    python scripts/check_sources.py [--only GLOB] [--include-path DIR] [--timeout SECONDS]
"""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from vlbench.catalog.catalog import Catalog, load_all_findings, load_catalog
from vlbench.catalog.findings import FindingsSpec
from vlbench.run.options import Options
from vlbench.run.task import resolve_task

# The phrase in the message about a model or a data set that must be downloaded by hand.
BY_HAND = "put it at"


class Tried(NamedTuple):
    """A model or a data set, whether it loads, and its last line of output."""

    kind: str
    name: str
    ok: bool
    said: str


def main(argv: Sequence[str] | None = None) -> int:
    """Try everything, print a report, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="names that match this glob")
    parser.add_argument("--include-path", type=Path, action="append", default=[])
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for each")
    arguments = parser.parse_args(argv)
    catalog = load_catalog(arguments.include_path)
    options = Options(include_path=arguments.include_path)
    papers = load_all_findings(catalog, arguments.include_path)
    commands = [*_models(catalog), *_data(catalog, options), *_papers(papers)]
    wanted = [one for one in commands if fnmatch(one[1], arguments.only)]
    found = [_try(*one, arguments) for one in wanted]
    print(report(found))
    return int(any(not one.ok and BY_HAND not in one.said for one in found))


def report(found: Sequence[Tried]) -> str:
    """Return what failed, what must be downloaded by hand, and how many load, as Markdown."""
    failed = [one for one in found if not one.ok]
    by_hand = [one for one in failed if BY_HAND in one.said]
    broken = [one for one in failed if one not in by_hand]
    lines = [f"{len(found) - len(failed)} of {len(found)} sources load."]
    for title, some in (("No longer loads", broken), ("Fetched by hand", by_hand)):
        lines += [f"\n## {title}\n"] if some else []
        lines += [f"- {one.kind} `{one.name}`: {one.said}" for one in some]
    return "\n".join(lines)


def _models(catalog: Catalog) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each model that is not known to be unavailable, with the command that tries it."""
    for name, spec in catalog.models.items():
        if not spec.unavailable:
            yield "model", name, ["check", name]


def _data(catalog: Catalog, options: Options) -> Iterator[tuple[str, str, list[str]]]:
    """Yield one task of each loader's data that can be downloaded, with the command that tries."""
    seen = set()
    for name, spec in catalog.tasks.items():
        key = repr(sorted((k, str(v)) for k, v in spec.data.items()))
        if spec.group or key in seen:
            continue
        seen.add(key)
        loader = resolve_task(catalog, name, False, options).loader
        if "download" in inspect.signature(loader).parameters:
            words = ["--model", "raw-pixels", "--tasks", name, "--download", "--limit", "2"]
            yield "data of", name, [*words, "--dry-run", "--strict"]


def _papers(papers: Mapping[str, FindingsSpec]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each paper that has experiments, with the command that runs its smallest experiment."""
    for name, paper in papers.items():
        if paper.experiments:
            words = ["papers", name, "--rows", "1", "--download", "--no-cache"]
            yield "paper", name, [*words, "--output", "build/papers"]


def _try(kind: str, name: str, words: Sequence[str], arguments: argparse.Namespace) -> Tried:
    sources = [word for path in arguments.include_path for word in ("--include-path", str(path))]
    command = [sys.executable, "-m", "vlbench", *words, *sources]
    try:
        done = subprocess.run(  # noqa: S603 - our own command
            command, capture_output=True, text=True, check=False, timeout=arguments.timeout
        )
    except subprocess.TimeoutExpired:
        return Tried(kind, name, ok=False, said=f"took more than {arguments.timeout:.0f} s")
    said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    bad = [line for line in said if line.startswith(("FAILED", "vlbench:", "unavailable"))]
    return Tried(kind, name, done.returncode == 0 and not bad, (bad or said or [""])[-1])


if __name__ == "__main__":
    sys.exit(main())
