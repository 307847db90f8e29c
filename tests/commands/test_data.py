import json
import shutil

import pytest
from sources import make_source

from vlbench.cli import main


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def run(source, *words):
    return main(["data", *words, "--include-path", str(source)])


def test_splits_classes_sizes_and_examples_are_shown(source, capsys):
    assert run(source, "few_shot_colours") == 0
    told = capsys.readouterr().out
    assert "few_shot_colours: 3 classes" in told
    lines = [line.split() for line in told.splitlines()]
    assert ["train", "9", "0", "0", "3", "8x8"] in lines
    assert told.count("train: ") == 5
    assert "in test, too" not in told


def test_duplicates_and_what_two_splits_share_are_counted_by_content(source, capsys):
    images = source / "images"
    shutil.copy(images / "train/red/0.png", images / "train/red/again.png")
    shutil.copy(images / "train/red/1.png", images / "test/red/other.png")
    assert run(source, "few_shot_colours", "--json") == 0
    splits = json.loads(capsys.readouterr().out)["splits"]
    assert (splits["train"]["rows"], splits["train"]["duplicates"]) == (10, 1)
    assert splits["train"]["overlap"] == {"test": 1}
    assert splits["test"]["overlap"] == {"train": 1}
    assert splits["train"]["per_class"] == {"blue": 3, "green": 3, "red": 4}


def test_absent_data_say_what_to_fetch_with_exit_code_2(source, capsys):
    shutil.rmtree(source / "images")
    assert run(source, "few_shot_colours") == 2
    assert "absent" in capsys.readouterr().err


def test_a_group_lists_its_members_and_a_wrong_name_the_nearest(source, capsys):
    assert run(source, "few_shot_six") == 0
    assert "few_shot_six is a group of" in capsys.readouterr().out
    assert run(source, "few_shot_colors") == 2
    assert "did you mean few_shot_colours" in capsys.readouterr().err


def test_a_data_dir_of_no_such_name_is_refused(source, capsys):
    assert run(source, "few_shot_colours", "--data-dir", "few_shot_color=x") == 2
    assert "did you mean few_shot_colours" in capsys.readouterr().err
