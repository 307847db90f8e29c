import json
import os
import time
from pathlib import Path

import pytest
import torch
from runs import evaluate

from vlbench.engine.store import Store
from vlbench.system.cache import ABOUT, entries, prune, remove
from vlbench.system.files import take_lock

DAY = 86_400.0


@pytest.fixture
def cache(tmp_path):
    """A cache with values of two models, of another day each, a drawn world and a record."""
    store = Store(tmp_path / "features")
    for days, model in ((9, "old"), (1, "new")):
        key = f"sha256:{model}0000"
        store.describe(key, {"models": [model], "what": "features", "data": "photos"})
        store.save(key, "000000", {"values": torch.zeros(1000 * days)})
        for file in (tmp_path / "features").rglob(f"{model}0000/*"):
            os.utime(file, (time.time() - days * DAY,) * 2)
    (tmp_path / "scenes" / "2-0-scenes-test").mkdir(parents=True)
    (tmp_path / "scenes" / "2-0-scenes-test" / "rows.arrow").write_bytes(b"0" * 100)
    (tmp_path / "scenes" / ".2-0-scenes-test.lock").touch()
    (tmp_path / "digests.sqlite").write_bytes(b"0" * 100)
    return tmp_path


def models(found):
    return [one.models for one in found]


def test_what_lies_there_has_its_model_its_data_its_size_and_when_it_was_used(cache):
    found = {one.what: one for one in entries(cache)}
    assert set(found) == {"features", "drawings"}
    assert (found["drawings"].data, found["drawings"].size) == ("2-0-scenes-test", 100)
    by_model = {one.models[0]: one for one in entries(cache) if one.models}
    assert by_model["old"].data == "photos"
    assert by_model["old"].size == sum(f.stat().st_size for f in by_model["old"].place.iterdir())
    assert time.time() - by_model["old"].used == pytest.approx(9 * DAY, abs=60)


def test_what_an_older_vlbench_stored_is_of_unknown_models(cache):
    (about,) = cache.glob(f"features/*/old0000/{ABOUT}")
    about.write_text("not JSON")
    assert {"unknown"} in [set(one.models) for one in entries(cache)]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"before": 5}, [["old"]]),
        ({"model": "new"}, [["new"]]),
        ({"most": 20_000}, [["old"]]),
        ({"most": 10**9}, []),
        ({"most": 0}, [["old"], ["new"], []]),
        ({"before": 5, "model": "new"}, []),
        ({"most": 0, "model": "new"}, [["new"]]),
    ],
)
def test_what_goes_is_old_of_a_model_or_the_oldest_that_is_too_much(cache, limits, expected):
    given = {"before": None, "model": None, "most": None, **limits}
    if given["before"]:
        given["before"] = time.time() - given["before"] * DAY
    assert models(prune(list(entries(cache)), **given)) == expected


def test_what_is_removed_is_gone_and_the_rest_is_there(cache):
    for one in prune(list(entries(cache)), before=None, model="old", most=None):
        assert remove(one)
    assert models(entries(cache)) == [["new"], []]
    assert not [*cache.glob("features/ol*")]
    assert Store(cache / "features").load("sha256:new0000", "000000") is not None


@pytest.mark.parametrize(
    "lock", ["features/ol/old0000/000000.lock", "scenes/.2-0-scenes-test.lock"]
)
def test_what_a_run_holds_locked_stays(cache, lock):
    (cache / lock).touch()
    held = take_lock(cache / lock)
    before = len(list(entries(cache)))
    gone = [remove(one) for one in list(entries(cache))]
    assert sorted(gone) == [False, *[True] * (before - 1)]
    held.release()
    assert all(remove(one) for one in list(entries(cache)))


def test_a_run_says_of_what_its_features_are_and_a_second_one_that_it_used_them(source, tmp_path):
    cache = tmp_path / "cache"

    def features():
        return [one for one in entries(cache) if one.what == "encode_images of images"]

    evaluate(source, cache_dir=cache)
    assert models(features()) == [["mean-colour"]] * 2
    assert {one.data for one in features()} == {"vlbench.data.image_folder:image_folder"}
    for file in cache.rglob("*.*"):
        os.utime(file, (time.time() - 9 * DAY,) * 2)
    assert all(time.time() - one.used > 8 * DAY for one in features())
    evaluate(source, cache_dir=cache)
    assert all(time.time() - one.used < DAY for one in features())


def test_an_about_that_is_no_mapping_says_nothing(cache):
    (about,) = cache.glob(f"features/*/old0000/{ABOUT}")
    about.write_text(json.dumps([1]))
    assert {"unknown"} in [set(one.models) for one in entries(cache)]


@pytest.mark.parametrize(
    "text", ['{"models": 3}', "[" * 100_000, " " * (9 << 20) + '{"models": ["x"]}']
)
def test_an_about_of_a_hostile_cache_says_nothing(cache, text):
    (about,) = cache.glob(f"features/*/old0000/{ABOUT}")
    about.write_text(text)
    assert {"unknown"} in [set(one.models) for one in entries(cache)]


def test_a_file_that_another_run_moves_meanwhile_is_left_out(cache, monkeypatch):
    stat = Path.stat

    def moved(path, **options):
        if path.name.startswith(".part-"):
            path.unlink(missing_ok=True)
        return stat(path, **options)

    before = {one.place: one.size for one in entries(cache)}
    parts = [place / ".part-1" for place in before]
    for part in parts:
        part.write_bytes(b"0")
    monkeypatch.setattr(Path, "stat", moved)
    assert {one.place: one.size for one in entries(cache)} == before
    assert not any(part.exists() for part in parts)


def test_an_entry_that_another_run_removes_meanwhile_is_left_out(cache):
    other = cache / "scenes" / "3-0-scenes-test"
    other.mkdir()
    seen = []
    for one in entries(cache):
        seen.append(one.place.name)
        if one.what == "drawings":
            other.rmdir()
    assert seen[-1] == "2-0-scenes-test"
