import numpy as np
import pytest
from planted_boards import board, counts
from planted_matrices import CLASSES, matrix, row, two_boards

from vlbench.leaderboard.members import joined

COMPARED = ["clip", "rn50", "bert", "clip (text)"]


def left_out(output, odd):
    """Return why the row of model `odd` is not compared."""
    members, reasons = joined(output, two_boards(output, odd))
    assert [member.name for member in members] == COMPARED
    return reasons["odd"]


def test_a_member_has_its_rows_matrix_and_classes(tmp_path):
    members, reasons = joined(tmp_path, two_boards(tmp_path))
    assert ([member.name for member in members], reasons) == (COMPARED, {})
    assert [member.model for member in members] == ["clip", "rn50", "bert", "clip"]
    assert (members[1].classes, members[1].comparable) == (CLASSES, "a")
    np.testing.assert_array_equal(members[1].read_matrix(), matrix(1).numpy())


def test_a_task_with_no_words_of_its_own_is_named_whole(tmp_path):
    first, second = (
        board(row(tmp_path, task, "clip", matrix(0)), task=task) for task in ("rsa_x", "x_rsa")
    )
    members, _ = joined(tmp_path, [first, second])
    assert [member.name for member in members] == ["clip", "clip (x_rsa)"]


def test_a_matrix_over_other_classes_is_left_out_by_name(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), classes=[*CLASSES[:-1], "other"])
    assert left_out(tmp_path, odd) == "its matrix is over other classes than that of clip"


def test_a_matrix_of_other_data_is_left_out_by_name(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), comparable="other")
    assert left_out(tmp_path, odd) == "not comparable with the most rows of rsa_x"


def test_a_matrix_that_is_gone_is_named(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5))
    (tmp_path / "artifacts/rsa_x/odd/rdm.safetensors").unlink()
    assert left_out(tmp_path, odd) == (
        "artifacts/rsa_x/odd/rdm.safetensors is absent; run the task again with --overwrite"
    )


def test_a_matrix_that_is_not_its_rows_is_named(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5))
    row(tmp_path, "rsa_x", "odd", matrix(6))
    assert left_out(tmp_path, odd) == (
        "artifacts/rsa_x/odd/rdm.safetensors is not the file that its row was written with; run "
        "the task again with --overwrite"
    )


def test_a_row_without_a_matrix_is_named(tmp_path):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), artifacts={})
    assert left_out(tmp_path, odd) == "its row keeps no rdm"


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed"},
        {"counts": counts(8, 9)},
        {"provenance": {"weights": "random:0"}},
    ],
)
def test_rows_that_are_not_publishable_take_no_part(tmp_path, changes):
    odd = row(tmp_path, "rsa_x", "odd", matrix(5), **changes)
    members, reasons = joined(tmp_path, two_boards(tmp_path, odd))
    assert ([member.name for member in members], reasons) == (COMPARED, {})
