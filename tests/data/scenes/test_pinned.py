import importlib.util
import json
from pathlib import Path

import pytest
from drawn_sample import pin

from vlbench.data.scenes import pinned
from vlbench.data.scenes.pinned import drawn_with, pinned_digests
from vlbench.data.scenes.storage import SCHEMA, read_digests
from vlbench.data.scenes.world import VERSION

SCRIPT = Path(__file__).parents[3] / "scripts" / "pin_scenes.py"


def test_every_column_of_this_version_is_pinned():
    content = json.loads(pinned.FILE.read_text())
    assert (content["version"], content["seed"]) == (VERSION, 0)
    assert [set(d) for d in content["digests"].values()] == [set(SCHEMA.names)] * 2


@pytest.mark.parametrize(
    "changed",
    [
        {"version": VERSION + 1},
        {"seed": 1},
        {"drawn_with": drawn_with() | {"pillow": "1.0"}},
        {"digests": {}},
    ],
)
def test_what_may_differ_is_not_pinned(tmp_path, monkeypatch, changed):
    monkeypatch.setattr(pinned, "FILE", tmp_path / "pinned.json")
    pin(pinned.FILE, {"objects": {"image": "sha256:0"}})
    assert pinned_digests("objects", 0) == {"image": "sha256:0"}
    pin(pinned.FILE, **({"digests": {"objects": {"image": "sha256:0"}}} | changed))
    assert pinned_digests("objects", 0) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["objects", "scenes"])
def test_the_pinned_digests_are_those_of_the_drawings(world, scenes_cache, name):
    world[name].splits["test"]["caption"][0]  # drawn by the first read
    digests = read_digests(scenes_cache / "vlbench/scenes" / f"{VERSION}-0-{name}")
    assert digests == json.loads(pinned.FILE.read_text())["digests"][name]


def test_the_script_pins_what_it_draws(small_world):
    spec = importlib.util.spec_from_file_location("pin_scenes", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main(small_world)
    assert (
        set(pinned_digests("objects", 0)) == set(pinned_digests("scenes", 0)) == set(SCHEMA.names)
    )
