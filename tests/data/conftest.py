"""A process that has imported nothing before: one for all tests that need one."""

import json
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from drawn_sample import SAMPLE

CODE = f"""
import importlib, json, pkgutil, sys
import vlbench.data
for module in pkgutil.walk_packages(vlbench.data.__path__, "vlbench.data."):
    importlib.import_module(module.name)
from vlbench.data.scenes import objects, scenes, table
from vlbench.data.scenes.rows import row
# Whatever is installed here, the digests are pinned.
versions = json.loads(table.PINNED.read_text())["drawn_with"]
table.drawn_with = lambda: versions
counts = [len(data.splits["test"]) for data in (objects(), scenes())]
modules = sorted(sys.modules)
rows = [repr(row(name, 0, i)) for name, i in {SAMPLE[::15]}]
print(json.dumps({{"counts": counts, "modules": modules, "rows": rows}}))
"""


@pytest.fixture(scope="session")
def fresh_process(tmp_path_factory):
    """What a new process imports for vlbench.data, and draws, on an empty cache."""
    cache = tmp_path_factory.mktemp("fresh")
    environment = os.environ | {"PYTHONHASHSEED": "7", "XDG_CACHE_HOME": str(cache)}
    run = [sys.executable, "-c", CODE]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout) | {"cached": list(cache.iterdir())}


@pytest.fixture
def little_memory():
    """A context in which this process gets at most 256 MiB of address space more than it has."""

    @contextmanager
    def limited():
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        before = resource.getrlimit(resource.RLIMIT_AS)
        most = pages * resource.getpagesize() + (256 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)

    return limited
