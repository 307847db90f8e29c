"""A sample of 150 rows of both drawn configurations, and drawn worlds of a few images."""

import json
from functools import partial

import pytest

from vlbench.data.scenes import pairs, rows, table
from vlbench.data.scenes.rows import row
from vlbench.data.scenes.storage import open_rows, write_once
from vlbench.data.scenes.world import VERSION
from vlbench.data.tables import Table

SAMPLE = [("objects", i) for i in range(0, 3000, 60)] + [("scenes", i) for i in range(0, 6000, 60)]

# Images per split of the small worlds.
FEW_OBJECTS = {"train": 3, "val": 1, "test": 2}
FEW_SCENES = {"train": (1, 1, 0, 0), "val": (1, 0, 0, 0), "test": (0, 1, 1, 1)}


def draw_sample():
    return (row(name, 0, i) for name, i in SAMPLE)


def sample_table(folder):
    """Return the table of the sample, drawn once into a folder."""
    return Table(partial(open_rows, folder), len(SAMPLE), write_once(folder, draw_sample))


def pin(file, digests, **changed):
    """Write a file of pinned digests for the installed libraries."""
    content = {"version": VERSION, "seed": 0, "drawn_with": table.drawn_with()}
    file.write_text(json.dumps(content | {"digests": digests} | changed))


@pytest.fixture
def small_world(monkeypatch, tmp_path):
    """Configurations of 6 images each, of which none is pinned; the file that can pin them."""
    monkeypatch.setattr(rows, "OBJECTS", FEW_OBJECTS)
    monkeypatch.setattr(rows, "SCENES", FEW_SCENES)
    monkeypatch.setattr(table, "PINNED", tmp_path / "pinned.json")
    monkeypatch.setattr(pairs, "COUNTS", {"test": 1, "train": 1})
    rows._numbers.cache_clear()
    pin(table.PINNED, {})
    yield table.PINNED
    rows._numbers.cache_clear()
