import os
import time

import pytest
from runs import evaluate
from sources import make_source, write

from vlbench.running.leftovers import MARK, sweep

TWO_DAYS = 172_800


def part(folder, name, age):
    file = write(folder / "ab" / name, "half of it")
    os.utime(file, (time.time() - age,) * 2)
    return file


def test_parts_older_than_a_day_are_swept_and_nothing_else(tmp_path):
    old, young = part(tmp_path, ".part-old", TWO_DAYS), part(tmp_path, ".part-young", 60)
    whole = part(tmp_path, "000000.pt", TWO_DAYS)
    sweep(tmp_path)
    assert [file.exists() for file in (old, young, whole)] == [False, True, True]


def test_a_folder_is_swept_once_a_day(tmp_path):
    sweep(tmp_path)
    old = part(tmp_path, ".part-old", TWO_DAYS)
    sweep(tmp_path)
    assert old.exists()
    os.utime(tmp_path / MARK, (0, 0))
    sweep(tmp_path)
    assert not old.exists()


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    sweep(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("folder", ["boards", "cache/features"])
def test_the_next_run_sweeps_what_a_killed_one_left(tmp_path, folder):
    old = part(tmp_path / folder, ".part-old", TWO_DAYS)
    places = {"output": tmp_path / "boards", "cache_dir": tmp_path / "cache"}
    evaluate(make_source(tmp_path / "ours"), **places)
    assert not old.exists()
