from pathlib import Path

import pytest
from runs import board, evaluate
from sources import make_source

from vlbench.running.provenance import shown_arguments, shown_weights


def test_a_row_shows_the_file_name_of_a_path(tmp_path):
    (tmp_path / "a.pt").touch()
    shown = shown_arguments({"weights": str(tmp_path / "a.pt"), "other": tmp_path / "b", "size": 8})
    assert shown == {"weights": "a.pt", "other": "b", "size": 8}


def test_a_row_shows_no_path_within_a_list(tmp_path):
    (tmp_path / "a.pt").touch()
    assert str(tmp_path) not in repr(shown_arguments({"files": [str(tmp_path / "a.pt"), tmp_path]}))


def test_a_row_shows_no_path_within_a_mapping(tmp_path):
    assert str(tmp_path) not in repr(shown_arguments({"files": {"a": str(tmp_path / "a.pt")}}))


def test_a_row_shows_no_path_to_what_is_not_there(tmp_path):
    assert str(tmp_path) not in repr(shown_arguments({"weights": str(tmp_path / "gone.pt")}))


def test_a_row_shows_no_folder_of_a_relative_path_to_what_is_not_there():
    assert shown_arguments({"weights": Path("alice/gone.pt")}) == {"weights": "gone.pt"}


def test_random_weights_are_shown_with_their_seed():
    assert shown_weights({"weights": "random", "init_seed": 3}, "sha256:x") == "random:3"
    assert shown_weights({"weights": "random"}, "sha256:x") == "random:0"
    assert shown_weights({"weights": "openai"}, "sha256:x") == "sha256:x"
    assert shown_weights({}, "sha256:x") == "sha256:x"


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def test_a_row_says_what_an_adapter_settled_itself(source):
    adapter = source / "model_adapters" / "colours.py"
    settles = "self.shift = shift\n        self.settled = {'resize': 232}"
    adapter.write_text(adapter.read_text().replace("self.shift = shift", settles))
    (row,) = evaluate(source)
    assert row.provenance["params"] == {"weights": "1.0", "shift": 0.0, "resize": 232}


def test_a_changed_image_makes_rows_that_are_not_comparable(source, tmp_path):
    output = tmp_path / "boards"
    evaluate(source, output=output)
    image = source / "images" / "train" / "red" / "0.png"
    image.write_bytes((source / "images" / "train" / "red" / "1.png").read_bytes())
    evaluate(source, output=output)
    assert len({row["comparable"] for row in board(output)["rows"]}) == 2
