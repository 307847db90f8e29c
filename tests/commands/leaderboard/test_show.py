from argparse import Namespace

import pytest
from planted_boards import board, measured, result, score, write

from vlbench.commands.leaderboard.show import answer
from vlbench.errors import UnknownNameError


def test_without_names_models_stand_by_tasks_in_a_table_for_each_data_set(tmp_path):
    rows = [
        result("a", score(0.5, chance=0.25)),
        result("c", score(0.2), provenance={"control": True}),
    ]
    shipped = [
        board(result("b", score(0.75)), task=name)
        for name in ("few_shot_digits", "transfer_digits")
    ]
    write(tmp_path, board(*rows), *shipped)
    other, one, note = answer(Namespace(output=tmp_path, tasks=[], include_path=[])).shown
    assert [str(table.title) for table in (other, one)] == ["Other data", "digits"]
    assert [str(column.header) for column in other.columns] == ["model", "T"]
    cells = [[str(cell) for cell in column.cells] for column in other.columns]
    assert cells == [["a", "chance", "c (control)"], ["50.0 %", "25.0 %", "20.0 %"]]
    assert note.startswith("Controls ignore")


def test_boards_without_scores_are_no_tables(tmp_path):
    write(tmp_path, board(result("a", status="skipped")))
    answered = answer(Namespace(output=tmp_path, tasks=[], include_path=[]))
    assert (answered.shown, answered.problems) == ([], [f"no model has scores in {tmp_path}"])


def test_what_cannot_be_told_apart_from_the_leader_is_marked(tmp_path):
    rows = [measured(tmp_path, m, [1] * n + [0] * (30 - n)) for m, n in (("x", 30), ("y", 29))]
    write(tmp_path, board(*rows, result("bare", score(0.1))))
    (table,) = answer(Namespace(output=tmp_path, tasks=["t"], include_path=[])).shown
    column = next(one for one in table.columns if str(one.header) == "against the leader")
    # One item of 30: (2.045 + 0.854) / 30 by Student's t, for the one pair that is tested.
    told = ["leader", "tied; 9.7 points would show", "not tested"]
    assert [str(cell) for cell in column.cells] == told


def test_the_board_of_a_group_that_was_never_built_is_told_with_the_command(tmp_path):
    write(tmp_path, board(result("a", score())))
    told = r"is named 'both'; there are t; vlbench leaderboard build"
    with pytest.raises(UnknownNameError, match=told):
        answer(Namespace(output=tmp_path, tasks=["both"], include_path=[]))
