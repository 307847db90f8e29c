import json

from planted_boards import PRIMARY, board, result, score
from planted_exports import HOSTILE, compared, named, referring, selection

from vlbench.report.export.json import text


def test_a_row_is_as_its_board_has_it_with_the_name_of_the_board(tmp_path):
    row = result("m", score(0.5, floors={"pixels": 0.2}, draws=[0.4, 0.6]), notes=["mind"])
    (found,) = json.loads(text(selection(tmp_path, board(row))))["rows"]
    assert found.pop("scores") == [
        row.row()["scores"][0] | {"draws": [0.4, 0.6], "published": None}
    ]
    head = {"task": "t", "version": 1, "paper": "", "primary": PRIMARY, "against_leader": ""}
    head |= {"data_name": "unknown"}
    assert found == {k: v for k, v in row.row().items() if k != "scores"} | head


def test_a_published_value_stands_beside_its_score(tmp_path):
    chosen = selection(tmp_path, board(result("m", score())), catalog=referring(0.25))
    (found,) = json.loads(text(chosen))["rows"]
    wanted = {"value": 0.25, "where": "Table 1", "difference": 0.25, "in_stderr": None}
    assert found["scores"][0]["published"] == wanted


def test_rows_are_best_first_with_their_standing(tmp_path):
    rows = json.loads(text(compared(tmp_path, "a", "b", "c")))["rows"]
    found = [(row["model"], row["against_leader"]) for row in rows]
    assert found == [("a", "clear leader"), ("b", "behind"), ("c", "behind")]


def test_names_come_back_as_they_were_from_a_text_in_ascii(tmp_path):
    document = text(named(tmp_path, *HOSTILE))
    assert document.isascii()
    assert [row["model"] for row in json.loads(document)["rows"]] == HOSTILE


def test_without_rows_the_document_is_the_same(tmp_path):
    assert json.loads(text(selection(tmp_path, board()))) == {"schema": 1, "rows": []}
