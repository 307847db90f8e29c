"""The page of shipped boards in a real Chromium: skipped without one, unless it is required."""

import os
import shutil
from pathlib import Path

import pytest
from chromium import Chromium

from vlbench.catalog.catalog import load_all_findings, load_catalog
from vlbench.report.building import build
from vlbench.report.page.page import read_page, render

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "build" / "axe" / "node_modules" / "axe-core" / "axe.min.js"

BOARDS = (
    "few_shot_scenes",
    "zero_shot_scenes",
    "entity_grounding_scenes",
    "word_similarity_simlex999",
)

# Continuous integration installs both, and sets this: there, a skip is a failure.
REQUIRED = os.environ.get("VLBENCH_BROWSER") == "required"


def absent(what):
    assert not REQUIRED, f"{what}, and VLBENCH_BROWSER=required"
    pytest.skip(f"{what}; .ci/run installs it")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    program = shutil.which("chromium")
    if program is None:
        absent("no chromium in PATH")
    started = Chromium(program, tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def axe():
    """The text of axe-core, which looks for what keeps people from reading a page."""
    if not AXE.is_file():
        absent("no axe-core in build/axe")
    return AXE.read_text("utf-8")


@pytest.fixture(scope="session")
def write_page(tmp_path_factory):
    """Return a function that writes the page of a folder of boards, and returns its address."""

    def write(boards):
        file = tmp_path_factory.mktemp("page") / "index.html"
        catalog = load_catalog()
        file.write_bytes(render(read_page(boards, catalog, load_all_findings(catalog, []))))
        return file.as_uri()

    return write


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A folder of three shipped boards with what `build` makes of them, which git does not have."""
    folder = tmp_path_factory.mktemp("shipped") / "leaderboards"
    folder.mkdir()
    for task in BOARDS:
        shutil.copy(ROOT / "leaderboards" / f"{task}.json", folder)
        for file in (ROOT / "leaderboards" / "artifacts" / task).rglob("*.*"):
            copy = folder / file.relative_to(ROOT / "leaderboards")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    build(folder, load_catalog())
    return folder


@pytest.fixture(scope="session")
def page(write_page, built):
    """The address of the page of these boards."""
    return write_page(built)
