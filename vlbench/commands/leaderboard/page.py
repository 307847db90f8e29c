"""`vlbench leaderboard page`: write all boards as one HTML file that needs no server."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vlbench.catalog.catalog import load_all_findings, load_catalog
from vlbench.commands import Answer
from vlbench.commands.parser import add_output
from vlbench.errors import UnknownNameError, counted
from vlbench.files import write_whole


def add_options(page: argparse.ArgumentParser) -> None:
    """Add the folder of the page, and that of the boards."""
    page.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="OUT",
        help="where index.html is written (default: page/ among the boards)",
    )
    add_output(page)


BUILD = "run vlbench leaderboard build"


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the page; return its name and size, and whose ties with the leader are out of date.

    Where boards were never built, as in a clone, what the page shows of them is built first.
    """
    from vlbench.report.page.page import read_page, render

    if not any(arguments.output.glob("*.json")):
        raise UnknownNameError(f"no board at all in {arguments.output}")
    catalog, built = load_catalog(arguments.include_path), []
    findings = load_all_findings(catalog, arguments.include_path)
    if not any(arguments.output.glob("comparisons/*.json")):
        # It takes as long again to import what draws.
        from vlbench.report.building import build

        built = build(arguments.output, catalog)
    with _without_gc():
        page = read_page(arguments.output, catalog, findings)
        content = render(page)
    file = (arguments.folder or arguments.output / "page") / "index.html"
    write_whole(file, content)
    problems = [
        f"{one.name}: figure, wrong items and ties with the leader are left out, since the board "
        f"has changed; {BUILD}"
        for one in page.sections
        if one.is_outdated
    ]
    wrote = [f"built {counted(len(built), 'file')} in {arguments.output}"] if built else []
    wrote.append(f"wrote {file} ({len(content) / 1e6:.1f} MB); open it in a browser")
    return Answer(wrote, problems)


@contextmanager
def _without_gc() -> Iterator[None]:
    """Turn garbage collection off, which takes a third of the time for many boards."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
