"""`vlbench leaderboard page`: all boards as one file of HTML."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator
from contextlib import contextmanager

from vlbench.catalog.catalog import load_catalog
from vlbench.commands.answer import Answer
from vlbench.errors import UnknownNameError
from vlbench.files import write_whole
from vlbench.leaderboard.page.contents import read_page, render

BUILD = "run vlbench leaderboard build"


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the page; return its name and size, and whose ties with the leader are out of date."""
    if not any(arguments.output.glob("*.json")):
        raise UnknownNameError(f"no board at all in {arguments.output}")
    with _uncollected():
        page = read_page(arguments.output, load_catalog(arguments.include_path))
        content = render(page)
    file = arguments.folder / "index.html"
    write_whole(file, content)
    problems = [
        f"{name}: figure, wrong items and ties with the leader are left out, since the board "
        f"has changed; {BUILD}"
        for name in page.outdated
    ]
    if not any(arguments.output.glob("comparisons/*.json")):
        problems = [f"figures, wrong items and ties with leaders are left out; {BUILD}"]
    return Answer([f"wrote {file} ({len(content) / 1e6:.1f} MB); open it in a browser"], problems)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Make objects without looking for cycles: of many boards' millions, that is a third of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
