import pytest
from planted_boards import board, counts, result, score, write
from planted_claims import task

from vlbench.leaderboard.reproduction.measured import Lack, counted_row, read_boards

RANDOM = {"provenance": {"weights": "random:1", "adapter": "sha256:2"}}


def test_a_task_has_its_board_and_a_group_its_summary(tmp_path):
    write(tmp_path, board(task="t"))
    write(tmp_path / "summaries", board(task="g"))
    found = read_boards(tmp_path, [task(), task("g", group=["t"]), task("u")])
    assert {name: one and one.task for name, one in found.items()} == {
        "t": "t",
        "g": "g",
        "u": None,
    }


def test_a_complete_row_of_trained_weights_counts():
    row = result("m", score())
    assert counted_row(board(row), task(), "m") is row


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "no row"),
        ([result("m", status="skipped", reason="it has no eyes")], "skipped: it has no eyes"),
        ([result("m", status="failed", reason="it broke")], "failed: it broke"),
        ([result("m", score(), counts=counts(9, 10))], "a row of incomplete data"),
        ([result("m", score(), **RANDOM)], "a row of random weights"),
        (
            [result("m", score()), result("m", score(), comparable="b")],
            "2 rows, and nothing says which one counts",
        ),
    ],
)
def test_a_row_that_does_not_count_is_told_with_the_reason(rows, why):
    assert counted_row(board(*rows), task(), "m") == Lack("m", "t", why)


def test_a_task_without_a_board_has_no_row():
    assert counted_row(None, task(), "m") == Lack("m", "t", "no board")


def test_a_board_of_another_version_does_not_count():
    why = "the board is of version 1, the task of version 2"
    assert counted_row(board(result("m", score())), task(version=2), "m") == Lack("m", "t", why)


def test_a_summary_has_the_version_of_its_tasks():
    row = result("m", score())
    assert counted_row(board(row, version=3), task(group=["u"]), "m") is row
