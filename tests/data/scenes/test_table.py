import importlib.util
import json
import os
import pickle
from itertools import islice
from pathlib import Path

import pytest
import torch
from drawn_sample import pin
from torch.utils.data import DataLoader

from vlbench.data.scenes import objects, table
from vlbench.data.scenes.rows import places, row
from vlbench.data.scenes.storage import SCHEMA, read_digests
from vlbench.data.scenes.table import draw_rows, drawn_with, pinned_digests, world_table
from vlbench.data.scenes.world import VERSION
from vlbench.errors import DataError

FOLDER = "scenes/2-0-objects-train"


@pytest.fixture
def pinned_objects(small_world, tmp_path):
    """The digests of six objects of three splits, pinned; those of train."""
    digests = {
        f"objects-{split}": dict(world_table("objects", split, 0, tmp_path / "elsewhere").digests)
        for split in ("train", "val", "test")
    }
    pin(small_world, digests)
    return digests["objects-train"]


@pytest.mark.usefixtures("small_world")
def test_what_is_not_pinned_is_drawn_at_once(tmp_path):
    world = world_table("objects", "train", 0, tmp_path)
    assert json.loads((tmp_path / FOLDER / "digests.json").read_text()) == world.digests
    assert len(world.values("nouns")) == world.length == 3


def test_what_is_pinned_is_drawn_when_the_first_value_is_read(tmp_path, pinned_objects):
    world = world_table("objects", "train", 0, tmp_path)
    assert world.digests == pinned_objects
    assert not (tmp_path / "scenes").exists()
    assert world.values("nouns")[:2] == [["puppy"], ["hound"]]
    assert (tmp_path / FOLDER / "rows.arrow").is_file()


@pytest.mark.usefixtures("pinned_objects")
def test_other_seeds_are_drawn_at_once(tmp_path):
    world_table("objects", "train", 1, tmp_path)
    assert (tmp_path / "scenes/2-1-objects-train").is_dir()


def test_stored_digests_hold_whatever_is_pinned(tmp_path, small_world):
    stored = world_table("objects", "train", 0, tmp_path).digests
    pin(small_world, {"objects-train": stored | {"image": "sha256:0"}})
    world = world_table("objects", "train", 0, tmp_path)
    assert world.digests == stored
    assert len(world.values("image")) == 3


def test_a_drawing_that_differs_is_refused_with_its_columns(tmp_path, small_world, pinned_objects):
    pin(small_world, {"objects-train": pinned_objects | {"image": "sha256:0", "boxes": "sha256:0"}})
    world = world_table("objects", "train", 0, tmp_path)
    message = (
        r"^scenes/2-0-objects-train: .*(image, boxes|boxes, image) drawn with numpy .*run the "
    )
    with pytest.raises(DataError, match=message):
        world.values("nouns")
    again = world_table("objects", "train", 0, tmp_path)
    assert again.digests == pinned_objects
    assert len(again.values("nouns")) == 3


@pytest.mark.usefixtures("pinned_objects")
def test_without_a_folder_the_default_cache_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    world_table("objects", "train", 0).values("label")
    assert (tmp_path / "home/vlbench" / FOLDER).is_dir()


@pytest.mark.usefixtures("pinned_objects")
def test_an_undrawn_column_travels_to_another_process_and_is_drawn_there(tmp_path):
    column = objects(cache_dir=tmp_path).splits["test"]["nouns"]
    copy = pickle.loads(pickle.dumps(column))  # noqa: S301 - our own
    assert not (tmp_path / "scenes").exists()
    assert list(copy) == list(column) == [["owl"], ["parrot"]]
    assert len(pickle.dumps(column)) < 5000


@pytest.mark.usefixtures("pinned_objects")
def test_a_split_is_drawn_without_the_others(tmp_path):
    assert list(objects(cache_dir=tmp_path).splits["test"]["nouns"]) == [["owl"], ["parrot"]]
    assert [folder.name for folder in (tmp_path / "scenes").glob("[!.]*")] == ["2-0-objects-test"]


@pytest.mark.usefixtures("pinned_objects")
def test_workers_of_a_loader_draw_one_world(tmp_path, monkeypatch):
    counted = tmp_path / "counted"

    def count_and_draw(*arguments):
        with counted.open("a") as file:
            file.write("once\n")
        return draw_rows(*arguments)

    monkeypatch.setattr(table, "draw_rows", count_and_draw)
    rows = objects(cache_dir=tmp_path).splits["train"]["boxes"]
    batches = DataLoader(rows, batch_size=1, num_workers=2, multiprocessing_context="fork")
    assert [boxes.shape for boxes in batches] == [torch.Size([1, 1, 4])] * 3
    assert counted.read_text() == "once\n"


def test_drawing_logs_its_progress(monkeypatch, caplog):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    # The clock is read at the start, and before each image.
    clock = iter([0.0, 0.0, 8.0, 16.0, 17.0])
    monkeypatch.setattr(table.time, "monotonic", lambda: next(clock))
    caplog.set_level("INFO", logger="vlbench")
    assert len(list(islice(draw_rows("objects", "val", 0), 4))) == 4
    first, then = caplog.messages
    assert first == "drawing objects, val, once: 0 of 400 images"
    assert then == "drawing objects, val, once: 2 of 400 images, 3184 s left"


SCRIPT = Path(__file__).parents[3] / "scripts" / "pin_scenes.py"


def test_every_column_of_this_version_is_pinned():
    content = json.loads(table.PINNED.read_text())
    assert (content["version"], content["seed"]) == (VERSION, 0)
    assert [set(d) for d in content["digests"].values()] == [set(SCHEMA.names)] * 13


DIFFERING = [
    {"version": VERSION + 1},
    {"seed": 1},
    {"drawn_with": drawn_with() | {"pillow": "1.0"}},
    {"digests": {}},
]


@pytest.mark.parametrize("changed", DIFFERING)
def test_what_may_differ_is_not_pinned(tmp_path, monkeypatch, changed):
    monkeypatch.setattr(table, "PINNED", tmp_path / "pinned.json")
    pin(table.PINNED, {"objects-train": {"image": "sha256:0"}})
    assert pinned_digests("objects-train", 0) == {"image": "sha256:0"}
    pin(table.PINNED, **({"digests": {"objects-train": {"image": "sha256:0"}}} | changed))
    assert pinned_digests("objects-train", 0) is None


@pytest.mark.parametrize("name", ["objects", "scenes", "objects-seen", "scenes-seen"])
def test_the_pinned_digests_are_those_of_the_drawings(world, scenes_cache, name):
    world[name].splits["test"]["caption"][0]  # drawn by the first read
    digests = read_digests(scenes_cache / "vlbench/scenes" / f"{VERSION}-0-{name}-test")
    assert digests == json.loads(table.PINNED.read_text())["digests"][f"{name}-test"]


def test_the_script_pins_what_it_draws(small_world):
    spec = importlib.util.spec_from_file_location("pin_scenes", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(small_world)
    names = [
        f"{name}-{split}"
        for name in ("objects", "scenes", "objects-seen", "scenes-seen")
        for split in ("train", "val", "test")
    ]
    names.append("pairs-test")
    assert [set(pinned_digests(name, 0)) for name in names] == [set(SCHEMA.names)] * 13


@pytest.mark.parametrize("cores", [1, 3])
def test_rows_are_the_same_however_many_processes_draw_them(cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    state = torch.get_rng_state()
    drawn = list(islice(draw_rows("scenes", "val", 0), 5))
    first = places("scenes")["val"].start
    assert drawn == [row("scenes", 0, first + i) for i in range(5)]
    assert torch.equal(torch.get_rng_state(), state)
