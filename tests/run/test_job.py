import json
import re
import sys

import pytest
from fakes import Reader
from runs import board, evaluate, planned, ran
from sources import TASK, make_source

from vlbench.boards import board as boards_module
from vlbench.boards.board import write_result
from vlbench.errors import DataError, SpecError
from vlbench.results import Result
from vlbench.run.job import existing_rows, kept_result


def test_a_row_of_the_same_request_is_kept_and_no_model_loads(source, tmp_path):
    where = {"include_path": [source], "output": tmp_path / "boards"}
    wanted = ["mean-colour"], ["few_shot_colours"]
    ran(*wanted, **where)
    assert [job.status for job in planned(*wanted, **where).jobs] == ["kept"]
    (before,) = board(tmp_path / "boards")["rows"]
    (result,) = ran(*wanted, **where).results
    assert json.loads(json.dumps(result.row())) == before


def test_overwrite_runs_what_a_board_holds(source, tmp_path):
    evaluate(source, output=tmp_path)
    assert [r.status for r in evaluate(source, output=tmp_path, overwrite=True)] == ["ok"]


def test_a_model_that_cannot_is_skipped_before_it_loads(source, tmp_path):
    (result,) = evaluate(source, model="words", output=tmp_path)
    assert (result.status, result.reason) == ("skipped", "the model has no ImageEncoder")
    assert not [*tmp_path.glob("*.json")]


def test_a_skipped_row_stands_beside_those_of_a_model_that_loaded(source, tmp_path):
    zero = TASK.replace("few_shot\n", "zero_shot\n", 1)
    zero = zero.replace("params: {shots: [1], trials: 2}\n", "").replace(", at: {shots: 1}", "")
    (source / "tasks" / "zero.yaml").write_text(zero)
    evaluate(source, tasks="ours", output=tmp_path)
    assert board(tmp_path, "zero")["rows"][0]["status"] == "skipped"
    assert board(tmp_path)["rows"][0]["status"] == "ok"


def test_without_takes_a_capability_away(source):
    models = source / "model_adapters" / "models.yaml"
    models.write_text('blind: {adapter: "colours:MeanColour", without: [ImageEncoder]}')
    (result,) = evaluate(source, model="blind")
    assert result.reason == "the model has no ImageEncoder"


def test_a_task_whose_package_is_absent_is_unavailable_before_anything_runs(monkeypatch):
    monkeypatch.setattr("vlbench.metrics.java.find_spec", lambda _: None)
    command = re.escape(f"{sys.executable} -m pip install 'vlbench[captions]'")
    with pytest.raises(DataError, match=rf": pycocoeval.* install it with `{command}`$"):
        planned(["tiny-clip"], ["caption_patterns_scenes"])


class Signed(Reader):
    """Multiplies the pixels by a sign that is no weight."""

    def __init__(self, sign):
        self.sign = sign

    def encode_images(self, pixels):
        return self.sign * pixels.flatten(1)


def test_an_object_that_differs_in_a_plain_attribute_is_not_kept_for_another(tmp_path):
    where = {"output": tmp_path / "boards", "cache_dir": tmp_path / "cache"}
    ran([Signed(1.0)], ["few_shot_digits"], **where)
    plans = [planned([Signed(sign)], ["few_shot_digits"], **where) for sign in (1.0, 0.0)]
    assert [plan.jobs[0].status for plan in plans] == ["kept", "run"]


def test_an_object_that_nothing_vouches_for_is_never_kept(tmp_path):
    model = Signed(1.0)
    model.clean = lambda text: text
    ran([model], ["few_shot_digits"], output=tmp_path / "boards")
    again = planned([model], ["few_shot_digits"], output=tmp_path / "boards")
    assert again.jobs[0].status == "run"


def test_a_changed_checkpoint_of_a_bare_name_is_not_kept(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"include_path": [source], "model_args": {"weights": "ck"}, "output": tmp_path / "b"}
    requests = []
    for content in ("one", "other"):
        (tmp_path / "ck").write_text(content)
        requests.append(planned(["mean-colour"], ["few_shot_colours"], **options).jobs[0].request)
    assert requests[0] != requests[1]


def row(model, status="ok", request="r"):
    head = {"task": "t", "version": 1, "paper": "p", "primary": {"metric": "accuracy", "at": {}}}
    return Result(**head, model=model, status=status, request=request)


@pytest.mark.parametrize("text", ['{"schema": 1}', '{"schema": 1, "task": "t", "rows": 5}'])
def test_a_foreign_file_of_schema_1_is_refused(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(SpecError, match=r"t\.json: '(task|version)' is missing"):
        existing_rows(tmp_path, "t")


def test_an_archived_board_that_is_malformed_is_refused(tmp_path):
    write_result(tmp_path, row("a"))
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "t.v0.json").write_text("{")
    with pytest.raises(SpecError, match=r"archive/t\.v0\.json is not a board"):
        existing_rows(tmp_path, "t")


def test_the_rows_that_stand_are_those_of_the_board_not_of_its_archive(tmp_path):
    (tmp_path / "archive").mkdir()
    write_result(tmp_path, row("old"))
    (tmp_path / "t.json").rename(tmp_path / "archive" / "t.v1.json")
    assert existing_rows(tmp_path, "t") == []
    write_result(tmp_path, row("new"))
    assert [one.model for one in existing_rows(tmp_path, "t")] == ["new"]


def test_without_an_output_no_row_stands():
    assert existing_rows(None, "t") == []


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
    read, files = boards_module.read_board, []
    for module in ("vlbench.boards.board", "vlbench.run.job"):
        monkeypatch.setattr(f"{module}.read_board", lambda file: files.append(file) or read(file))
    jobs = planned(["mean-colour", "words", "fails"], ["few_shot_colours"], **where).jobs
    assert [job.status for job in jobs] == ["kept", "skipped", "run"]
    assert files == [tmp_path / "boards" / "few_shot_colours.json"]
