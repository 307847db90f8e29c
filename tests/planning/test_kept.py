import pytest
from runs import planned, ran
from sources import make_source

from vlbench import boards
from vlbench.boards import write_result
from vlbench.errors import SpecError
from vlbench.planning.kept import kept_result, standing_rows
from vlbench.results import Result


def row(model, status="ok", request="r"):
    head = {"task": "t", "version": 1, "paper": "p", "primary": {"metric": "accuracy", "at": {}}}
    return Result(**head, model=model, status=status, request=request)


@pytest.mark.parametrize("text", ['{"schema": 1}', '{"schema": 1, "task": "t", "rows": 5}'])
def test_a_foreign_file_of_schema_1_is_refused(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(SpecError, match=r"t\.json: (task|version): is absent"):
        standing_rows(tmp_path, "t")


def test_an_archived_board_that_is_malformed_is_refused(tmp_path):
    write_result(tmp_path, row("a"))
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "t.v0.json").write_text("{")
    with pytest.raises(SpecError, match=r"archive/t\.v0\.json: is no board"):
        standing_rows(tmp_path, "t")


def test_the_rows_that_stand_are_those_of_the_board_not_of_its_archive(tmp_path):
    (tmp_path / "archive").mkdir()
    write_result(tmp_path, row("old"))
    (tmp_path / "t.json").rename(tmp_path / "archive" / "t.v1.json")
    assert standing_rows(tmp_path, "t") == []
    write_result(tmp_path, row("new"))
    assert [one.model for one in standing_rows(tmp_path, "t")] == ["new"]


def test_without_an_output_no_row_stands():
    assert standing_rows(None, "t") == []


def test_the_ok_row_of_the_model_that_answers_a_request_is_kept():
    rows = [row("a"), row("b", request="other"), row("c", "failed")]
    assert kept_result(rows, "a", "r") is rows[0]
    assert kept_result(rows, "b", "r") is None
    assert kept_result(rows, "c", "r") is None


def test_no_row_answers_an_empty_request():
    assert kept_result([row("a", request="")], "a", "") is None


def test_a_plan_reads_the_board_of_a_task_once_for_all_models(tmp_path, monkeypatch):
    where = {"include_path": [make_source(tmp_path / "ours")], "output": tmp_path / "boards"}
    ran(["mean-colour"], ["few_shot_colours"], **where)
    read, files = boards.read_board, []
    for module in ("vlbench.boards", "vlbench.planning.kept"):
        monkeypatch.setattr(f"{module}.read_board", lambda file: files.append(file) or read(file))
    jobs = planned(["mean-colour", "words", "fails"], ["few_shot_colours"], **where).jobs
    assert [job.status for job in jobs] == ["kept", "skipped", "run"]
    assert files == [tmp_path / "boards" / "few_shot_colours.json"]
