import json
import subprocess
import sys

import pytest
import torch

from vlbench.boards.board import (
    read_board,
    refuse_clash,
    require_writable,
    save_artifacts,
    write_result,
)
from vlbench.errors import IdentityClash, OutputError, SpecError
from vlbench.results import Result, Score

WRITER = """
import sys
from pathlib import Path
from vlbench.boards.board import write_result
from vlbench.results import Result, Score
for i in range(20):
    score = Score(metric="accuracy", value=0.5, n=4)
    head = {"task": "t", "version": 1, "paper": "p", "primary": {"metric": "accuracy", "at": {}}}
    model = f"{sys.argv[2]}-{i}"
    write_result(Path(sys.argv[1]), Result(**head, model=model, status="ok", scores=[score]))
"""


def result(model="m", status="ok", comparable="c1", **rest):
    given = {
        "task": "t",
        "version": 1,
        "paper": "p",
        "primary": {"metric": "accuracy", "at": {}},
        "request": "r",
        "scores": [Score(metric="accuracy", value=0.5, n=4)] if status == "ok" else [],
        "provenance": {"weights": "w1", "adapter": "a1"},
    }
    return Result(model=model, status=status, comparable=comparable, **(given | rest))


def written(folder, *results):
    for one in results:
        write_result(folder, one)
    return [
        (row.model, row.status, row.comparable, row.reason)
        for row in read_board(folder / "t.json").results
    ]


def test_a_board_that_is_not_there_is_none(tmp_path):
    assert read_board(tmp_path / "t.json") is None


def test_a_board_has_every_key_of_the_contract(tmp_path):
    write_result(tmp_path / "new", result())
    board = json.loads((tmp_path / "new" / "t.json").read_text())
    assert list(board) == ["schema", "task", "version", "paper", "primary", "rows"]
    assert (board["schema"], board["task"], board["version"]) == (1, "t", 1)
    assert set(board["rows"][0]) == {
        *("model", "status", "reason", "comparable", "request", "scores", "counts"),
        *("artifacts", "notes", "provenance", "run"),
    }


def test_a_board_has_a_line_for_each_key_and_each_score(tmp_path):
    hostile = '"scores": [], and \n so on'
    scores = [Score("accuracy", 0.5, 100, at={"k": k}, ci95=(0.4, 0.6), draws=[]) for k in (1, 2)]
    write_result(tmp_path, result(reason=hostile, scores=scores))
    lines = (tmp_path / "t.json").read_text("utf-8").splitlines()
    (first, second) = (line for line in lines if line.startswith('    {"metric": "accuracy"'))
    assert json.loads(first.rstrip(","))["ci95"] == [0.4, 0.6]
    assert json.loads(second)["at"] == {"k": 2}
    assert '   "model": "m",' in lines
    (found,) = read_board(tmp_path / "t.json").results
    assert (found.reason, [*found.scores]) == (hostile, scores)


def test_nothing_but_boards_ends_in_json(tmp_path):
    write_result(tmp_path, result())
    save_artifacts(tmp_path, "t", "m", {"heads": torch.zeros(2)})
    assert [path.name for path in tmp_path.glob("*.json")] == ["t.json"]
    assert list((tmp_path / "artifacts").rglob("*.json")) == []


def test_rows_are_known_by_model_and_comparable(tmp_path):
    rows = written(tmp_path, result("b"), result("a"), result("a", comparable="c2"), result("b"))
    assert [row[:3] for row in rows] == [("a", "ok", "c1"), ("a", "ok", "c2"), ("b", "ok", "c1")]


def test_the_same_rows_in_any_order_make_the_same_board(tmp_path):
    results = [result("b"), result("a", "failed"), result("c")]
    written(tmp_path / "1", *results)
    written(tmp_path / "2", *reversed(results))
    assert (tmp_path / "1" / "t.json").read_bytes() == (tmp_path / "2" / "t.json").read_bytes()


def test_a_new_ok_row_takes_the_place_of_the_old(tmp_path):
    better = result(scores=[Score(metric="accuracy", value=0.75, n=4)])
    assert len(written(tmp_path, result(), better)) == 1
    assert read_board(tmp_path / "t.json").results[0].scores[0].value == 0.75


@pytest.mark.parametrize("status", ["failed", "skipped"])
@pytest.mark.parametrize("comparable", ["c1", ""])
def test_a_row_without_scores_never_takes_the_place_of_an_ok_one(tmp_path, status, comparable):
    rows = written(tmp_path, result(), result("m", status, comparable, reason="broke"))
    assert rows == [("m", "ok", "c1", "")]


@pytest.mark.parametrize("status", ["failed", "skipped"])
def test_an_ok_row_takes_the_place_of_one_without_scores(tmp_path, status):
    assert written(tmp_path, result("m", status, "", reason="broke"), result()) == [
        ("m", "ok", "c1", "")
    ]


def test_the_last_reason_stands(tmp_path):
    first, second = (result("m", "failed", "", reason=why) for why in ("one", "two"))
    assert written(tmp_path, first, second) == [("m", "failed", "", "two")]


def test_a_failed_row_leaves_the_rows_of_other_models(tmp_path):
    assert [row[:2] for row in written(tmp_path, result("a"), result("b", "failed", ""))] == [
        ("a", "ok"),
        ("b", "failed"),
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_an_older_version_is_in_the_archive_whichever_comes_first(tmp_path, order):
    versions = result("old"), result("new", version=2)
    assert written(tmp_path, *versions[::order]) == [("new", "ok", "c1", "")]
    archived = read_board(tmp_path / "archive" / "t.v1.json")
    assert (archived.version, [row.model for row in archived.results]) == (1, ["old"])
    assert read_board(tmp_path / "t.json").version == 2


def test_archived_rows_merge_with_those_already_there(tmp_path):
    written(tmp_path, result("a"), result("b"), result("c", version=2))
    (tmp_path / "t.json").unlink()
    written(tmp_path, result("b", request="again"), result("c", version=2))
    rows = read_board(tmp_path / "archive" / "t.v1.json").results
    assert [(row.model, row.request) for row in rows] == [("a", "r"), ("b", "again")]


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "5", "null", "\x00", '{"schema": 1'])
def test_what_is_no_board_is_refused_and_left_alone(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(SpecError, match=r"t\.json is not a board"):
        write_result(tmp_path, result())
    assert (tmp_path / "t.json").read_text() == text


def test_undecodable_bytes_are_no_board(tmp_path):
    (tmp_path / "t.json").write_bytes(b'{"schema": 1, "task": "\xff"}')
    with pytest.raises(SpecError, match=r"t\.json is not a board: .*utf-8"):
        read_board(tmp_path / "t.json")


def test_a_folder_is_no_board(tmp_path):
    with pytest.raises(SpecError, match=r"is not a board: .*directory"):
        read_board(tmp_path)


@pytest.mark.parametrize("schema", ["2", '"1"', "null", "0"])
def test_another_schema_is_refused(tmp_path, schema):
    (tmp_path / "t.json").write_text(f'{{"schema": {schema}, "rows": []}}')
    message = "is not a board of schema 1, the only schema that this vlbench reads"
    with pytest.raises(SpecError, match=message):
        read_board(tmp_path / "t.json")


def content_and_time(file):
    return file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_ino


@pytest.mark.parametrize("standing", [result(), result("m", "skipped", reason="why")])
def test_a_board_that_says_so_already_is_not_written_again(tmp_path, standing):
    write_result(tmp_path, result("other"))
    write_result(tmp_path, standing)
    before = content_and_time(tmp_path / "t.json")
    write_result(tmp_path, result("m", "skipped", reason="why"))
    assert content_and_time(tmp_path / "t.json") == before


NEWS = [
    result("m", "skipped", reason="another"),
    result("m", "failed", reason="why"),
    result("new", "skipped", reason="why"),
    result("m", "skipped", reason="why", paper="another"),
    result("m", "skipped", reason="why", request="another"),
]


@pytest.mark.parametrize("new", NEWS)
def test_a_board_that_says_anything_else_is_written(tmp_path, new):
    write_result(tmp_path, result("m", "skipped", reason="why"))
    before = (tmp_path / "t.json").read_bytes()
    write_result(tmp_path, new)
    assert (tmp_path / "t.json").read_bytes() != before
    rows = read_board(tmp_path / "t.json").results
    assert (new.model, new.status, new.reason) in [(r.model, r.status, r.reason) for r in rows]


def test_a_failed_row_beside_an_ok_row_of_the_same_model_goes(tmp_path):
    write_result(tmp_path, result())
    content = json.loads((tmp_path / "t.json").read_text())
    content["rows"].append(content["rows"][0] | {"status": "failed", "reason": "why"})
    (tmp_path / "t.json").write_text(json.dumps(content))
    assert written(tmp_path, result("m", "failed", reason="again")) == [("m", "ok", "c1", "")]


@pytest.mark.parametrize("part", ["weights", "adapter"])
def test_other_weights_or_another_adapter_under_one_name_clash(tmp_path, part):
    write_result(tmp_path, result())
    new = result(provenance={"weights": "w1", "adapter": "a1"} | {part: "other"})
    with pytest.raises(
        IdentityClash,
        match=rf"t\.json: 'm' is already on it with other {part}; pass another --name,",
    ):
        refuse_clash(tmp_path, new)


OTHER = {"provenance": {"weights": "w2", "adapter": "a2"}}


NO_CLASH = [
    (result("m", "failed"), result(**OTHER)),
    (result("other"), result(**OTHER)),
    (result(comparable="c2"), result(**OTHER)),
    (result(), result(request="another")),
]


@pytest.mark.parametrize(("standing", "new"), NO_CLASH)
def test_failed_rows_other_identities_and_the_same_weights_do_not_clash(tmp_path, standing, new):
    write_result(tmp_path, standing)
    refuse_clash(tmp_path, new)
    assert len(read_board(tmp_path / "t.json").results) == 1


@pytest.mark.parametrize("task", ["../../escaped", "a/b", "a\\b", "", ".", "..", ".t", "a\nb"])
def test_the_name_of_a_task_never_leads_out_of_the_folder(tmp_path, task):
    for use in (write_result, refuse_clash):
        with pytest.raises(SpecError, match="is not a file name; it would be outside the folder"):
            use(tmp_path / "a" / "boards", result(task=task))
    with pytest.raises(SpecError, match="is not a file name"):
        save_artifacts(tmp_path, task, "m", {"heads": torch.zeros(1)})
    assert {file.name for file in tmp_path.rglob("*")} <= {"a", "boards", ".lock"}


def test_a_row_that_another_run_wrote_meanwhile_is_not_lost(tmp_path):
    new = result(provenance={"weights": "w2", "adapter": "a1"})
    refuse_clash(tmp_path, new)
    write_result(tmp_path, result())
    message = "'m' is already on it with other weights; pass another --name,"
    with pytest.raises(IdentityClash, match=message):
        write_result(tmp_path, new, {"heads": torch.zeros(2)})
    assert read_board(tmp_path / "t.json").results[0].provenance["weights"] == "w1"
    assert not (tmp_path / "artifacts").exists()
    saved = write_result(tmp_path, new, {"heads": torch.zeros(2)}, overwrite=True)
    (row,) = read_board(tmp_path / "t.json").results
    assert (row.provenance, row.artifacts) == (saved.provenance, saved.artifacts)
    assert (tmp_path / saved.artifacts["heads"]["file"]).is_file()


def test_nothing_clashes_with_no_board(tmp_path):
    refuse_clash(tmp_path, result())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused_and_the_board_stays(tmp_path, number):
    write_result(tmp_path, result())
    before = (tmp_path / "t.json").read_bytes()
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        write_result(tmp_path, result(run={"seconds": number}))
    assert (tmp_path / "t.json").read_bytes() == before


@pytest.mark.timeout(120)
def test_two_processes_at_once_lose_no_row(tmp_path):
    commands = [[sys.executable, "-c", WRITER, str(tmp_path), name] for name in ("a", "b")]
    runs = [subprocess.Popen(command) for command in commands]
    assert [run.wait(100) for run in runs] == [0, 0]
    models = {row.model for row in read_board(tmp_path / "t.json").results}
    assert models == {f"{name}-{i}" for name in "ab" for i in range(20)}


@pytest.mark.parametrize("folder", ["file", "file/deeper"])
def test_a_file_in_place_of_the_output_is_told(tmp_path, folder):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=r"cannot write boards to .*file"):
        require_writable(tmp_path / folder)


def test_a_result_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=r"cannot write boards to .*file: it is a file"):
        write_result(tmp_path / "file", result())


def test_a_folder_that_can_be_written_is_made_and_left_empty(tmp_path):
    require_writable(tmp_path / "a" / "b")
    assert [path.name for path in (tmp_path / "a" / "b").iterdir() if path.name[0] != "."] == []
    assert not (tmp_path / "a" / "b" / ".writable").exists()
