import shutil

import pytest
from fakes import ConstantModel
from runs import board, evaluate
from sources import TASK, make_source, write


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "ours")


def test_every_key_of_a_row_is_there(source, tmp_path):
    evaluate(source, output=tmp_path / "boards")
    (row,) = board(tmp_path / "boards")["rows"]
    assert set(row) == {
        *("model", "status", "reason", "comparable", "request", "scores", "counts"),
        *("artifacts", "notes", "provenance", "run"),
    }
    counts = {"n": 9, "expected": 9, "ties": 0, "truncated_texts": 0, "clusters": 9}
    assert row["counts"] == counts | {"choices": 18}


ALL_TIED = "18 of 18 choices are tied, and a tied choice earns what guessing does"


def test_a_row_whose_choices_are_mostly_tied_notes_it(source):
    (tied,) = evaluate(source, model=ConstantModel())
    assert (tied.notes[0], tied.is_mostly_tied) == (ALL_TIED, True)
    (told,) = evaluate(source)
    assert (list(told.notes), told.is_mostly_tied) == ([], False)


def test_all_but_run_is_the_same_on_a_rerun(source, tmp_path):
    rows = []
    for name in ("one", "two"):
        evaluate(source, output=tmp_path / name, cache_dir=tmp_path / f"cache of {name}")
        rows.append(board(tmp_path / name)["rows"][0] | {"run": {}})
    assert rows[0] == rows[1]


def test_no_local_path_enters_a_row(source, tmp_path):
    evaluate(source, output=tmp_path / "boards")
    assert str(tmp_path) not in (tmp_path / "boards" / "few_shot_colours.json").read_text()


def test_no_folder_of_this_machine_enters_a_reason(source, tmp_path):
    adapters = source / "model_adapters" / "colours.py"
    message = "raise RuntimeError('no file /home/alice/secret/weights.bin')"
    adapters.write_text(
        adapters.read_text().replace('raise RuntimeError("the model broke")', message)
    )
    (result,) = evaluate(source, model="fails", output=tmp_path / "boards")
    assert result.reason.startswith("RuntimeError: no file weights.bin (colours.py:")


def test_what_an_adapter_does_not_take_of_a_task_is_noted(source):
    write(source / "tasks" / "b.yaml", TASK + "model: {resize: 8, shift: 1, crop: 8}\n")
    (result,) = evaluate(source, tasks="b")
    assert list(result.notes) == [
        "the adapter has no `resize`: its own preprocessing holds",
        "the adapter has no `crop`: its own preprocessing holds",
    ]


def test_an_adapter_object_takes_nothing_of_a_task_and_the_row_notes_it(source):
    write(source / "tasks" / "b.yaml", TASK + "model: {crop: 8}\n")
    (result,) = evaluate(source, model=ConstantModel(), tasks="b")
    assert list(result.notes) == [
        ALL_TIED,
        "the adapter came as an object, without `crop`: its own preprocessing holds",
    ]


def test_a_lone_surrogate_in_a_note_or_a_reason_loses_no_row(source, tmp_path):
    adapters = source / "model_adapters" / "colours.py"
    adapters.write_text(adapters.read_text().replace("the model broke", "broke \\ud800"))
    evaluate(source, model="fails", output=tmp_path / "boards")
    (row,) = board(tmp_path / "boards")["rows"]
    assert row["reason"].startswith("RuntimeError: broke \ufffd (colours.py:")


def test_rows_that_two_splits_share_are_counted(source):
    images = source / "images"
    shutil.copy(images / "train/red/0.png", images / "test/red/again.png")
    shutil.copy(images / "train/red/0.png", images / "test/blue/and again.png")
    (result,) = evaluate(source)
    # Test has 11 images now, and train 9.
    assert list(result.notes) == ["data: 1 of 9 rows of train are in test, too"]
