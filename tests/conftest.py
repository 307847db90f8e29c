"""No test reaches a network, or the caches of whoever runs it."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from real_models import NOT_TESTED
from sources import make_source
from together import pair_server

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_CACHE"] = os.devnull

# One thread: tests fork, which threads of torch do not survive, and two workers share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


TESTS = Path(__file__).parent

# Folders and files of tests that compute in floats.
NUMBERS = {
    "metrics",
    "probes",
    "adapter_kit",
    "model_adapters",
    "test_doctests.py",
    "test_pass_checks.py",
    "test_passes.py",
    "test_training.py",
}


def pytest_addoption(parser):
    parser.addoption("--nightly", action="store_true", help="also run the tests marked nightly")


def pytest_itemcollected(item):
    """Mark what computes in floats."""
    if NUMBERS & set(item.path.relative_to(TESTS).parts) and not item.get_closest_marker("gpu"):
        item.add_marker("numbers")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Leave out nightly tests, and start what takes minutes first, so that nothing waits for it."""
    if not config.option.nightly:
        left_out = [item for item in items if item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


def pytest_collection_finish():
    """Leave what is imported by now out of every collection: each run of vlbench collects twice."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter):
    """Say in one line that real models were not tested: with -q, nothing else does."""
    skipped = terminalreporter.stats.get("skipped", [])
    if any(NOT_TESTED in str(one.longrepr) for one in skipped):
        terminalreporter.write_line(NOT_TESTED, red=True, bold=True)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for option in ("CACHE_DIR", "OUTPUT", "DEVICE"):
        monkeypatch.delenv(f"VLBENCH_{option}", raising=False)


@pytest.fixture
def source(tmp_path) -> Path:
    """A source with one adapter file, images of three colours, and the task few_shot_colours."""
    return make_source(tmp_path / "ours")


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Let two processes run a function of a test's file together, and return both results."""
    with pair_server(tmp_path_factory.mktemp("pair")) as run:
        yield run


@pytest.fixture(scope="session")
def scenes_cache(tmp_path_factory) -> Path:
    """A cache that vlbench's own world is drawn into once, whichever worker needs it first."""
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "scenes"


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The site of docs/, built once, without its notebooks; a warning is an error."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "site"
    with FileLock(f"{folder}.lock"):
        if not (folder / "built").exists():
            command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning"]
            command += ["--keep-going", str(TESTS.parent / "docs"), str(folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            (folder / "built").touch()
    return folder


@pytest.fixture
def scenes_drawn(scenes_cache, monkeypatch) -> None:
    """The test draws `scenes` once for all tests that ask for this, instead of once for each."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(scenes_cache))


@pytest.fixture
def real_data() -> Path:
    """The folder of real records, or a skip that says why."""
    folder = os.environ.get("VLBENCH_DATA")
    if not folder:
        pytest.skip("VLBENCH_DATA is not set: real records are not here")
    return Path(folder).absolute()
