"""No test reaches a network, or the caches of whoever runs it."""

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

# One thread: tests fork, which threads of torch do not survive, and two workers share two cores.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def real_data() -> Path:
    """The folder of real records, or a skip that says why."""
    folder = os.environ.get("VLBENCH_DATA")
    if not folder:
        pytest.skip("VLBENCH_DATA is not set: real records are not here")
    return Path(folder).absolute()
