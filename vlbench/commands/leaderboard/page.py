"""`vlbench leaderboard page`: write all boards as one HTML file that needs no server."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vlbench.catalog.catalog import Catalog, load_all_findings, load_catalog
from vlbench.commands import Answer
from vlbench.commands.parser import (
    add_data,
    add_output,
    add_questions,
    add_trust,
    set_up_for_data,
)
from vlbench.errors import UnknownNameError, VlbenchError, counted
from vlbench.system.files import write_whole

if TYPE_CHECKING:
    from vlbench.report.page.page import Page
    from vlbench.report.page.sections import Section

BUILD = "run vlbench leaderboard build"


def add_options(page: argparse.ArgumentParser) -> None:
    """Add the options for the folder of the page and for the boards."""
    page.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="OUT",
        help="the folder for index.html (default: page/ among the boards)",
    )
    page.add_argument(
        "--images",
        type=Path,
        nargs="?",
        default=False,  # without DIR the option is None: argparse makes a Path of a text
        metavar="DIR",
        help="show the images that models get wrong most often, of all data that are here and, for "
        "your own images, in DIR; check their licences before you publish the page (drawings are "
        "always shown)",
    )
    add_questions(page)
    add_data(page)
    add_trust(page)
    add_output(page)


def answer(arguments: argparse.Namespace) -> Answer:
    """Write the page; return its name and size, and the tasks whose figures are out of date.

    If the folder has no figures, as in a clone, summaries and figures are built first.
    """
    from vlbench.report.page.page import read_page, render

    if not any(arguments.output.glob("*.json")):
        raise UnknownNameError(f"no boards in {arguments.output}")
    catalog = load_catalog(arguments.include_path)
    built: list[Path] = []
    findings = load_all_findings(catalog, arguments.include_path)
    if not any(arguments.output.glob("figures/*")):
        # Imported here: importing the drawing doubles the time.
        from vlbench.report.building import build

        built, _ = build(arguments.output, catalog)
    with _without_gc():
        page = read_page(arguments.output, catalog, findings)
        page, absent = _with_images(page, catalog, arguments)
        content = render(page)
    file = (arguments.folder or arguments.output / "page") / "index.html"
    write_whole(file, content)
    problems = [
        f"{section.name}: its figure is left out because the board has changed; {BUILD}"
        for section in page.sections
        if section.is_outdated
    ]
    wrote = [f"built {counted(len(built), 'file')} in {arguments.output}"] if built else []
    wrote.append(f"wrote {file} ({len(content) / 1e6:.1f} MB); open it in a browser")
    return Answer(wrote, [*problems, *absent])


def _with_images(
    page: Page, catalog: Catalog, arguments: argparse.Namespace
) -> tuple[Page, list[str]]:
    """Return the page with images and questions of its worst items, and why tasks have none.

    Only drawings are shown, if the data that made them are here, unless `--images` asks for all.
    """
    from vlbench.report.page.thumbnails import digests_of, thumbnail

    is_asked, arguments.images = arguments.images is not False, arguments.images or None
    illustrations, absent = [], []
    illustrated: dict[str, Section] = {}
    for section in (part for part in page.sections if is_asked or part.is_embedded):
        try:
            if digests := digests_of(section, arguments.output):
                illustrations.append((section, digests))
        except VlbenchError as error:
            absent.append(f"{section.name}: no images: {error}")
    if not illustrations:
        return page, absent
    from vlbench.run.item_images import data_of, image_at, places_of, questions_of

    with set_up_for_data(arguments) as options:
        for section, digests in illustrations:
            try:
                data = data_of(catalog, section.name, options)
                questions = questions_of(data)
                places = places_of(section.name, data, [*digests.values()])
                illustrated[section.name] = section._replace(
                    thumbnails={
                        name: thumbnail(image_at(*places[d])) for name, d in digests.items()
                    },
                    questions={name: questions.get((name, d), "") for name, d in digests.items()},
                )
            except VlbenchError as error:
                absent += [f"{section.name}: no images: {error}"] if is_asked else []
    groups = {
        title: [illustrated.get(part.name, part) for part in sections]
        for title, sections in page.groups.items()
    }
    return page._replace(groups=groups), absent


@contextmanager
def _without_gc() -> Iterator[None]:
    """Turn garbage collection off; it takes a third of the time for many boards."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
