import json
import re
import uuid
from dataclasses import replace
from hashlib import sha256

import pytest
from jsonschema import Draft7Validator
from planted_boards import board, result, score
from planted_exports import HOSTILE, selection

from vlbench.boards import save_artifacts
from vlbench.catalog.catalog import load_catalog
from vlbench.leaderboard.export.every_eval_ever import File, Source, records
from vlbench.leaderboard.export.selection import LeftOut
from vlbench.metrics.items import Examples, item_table

MODELS = load_catalog().models
RUN = {"finished": "2026-11-21T23:31:21+00:00"}


@pytest.fixture
def valid(real_data):
    """What checks a file against the official schema of its kind."""
    folder = real_data / "every_eval_ever"
    kinds = {"": "eval", "_samples": "instance_level_eval"}
    schemas = {k: json.loads((folder / f"{v}.schema.json").read_text()) for k, v in kinds.items()}
    checks = {kind: Draft7Validator(schema) for kind, schema in schemas.items()}

    def check(file):
        kind = "_samples" if file.place.endswith("_samples.jsonl") else ""
        # Every item of a row is made alike: some tell.
        documents = file.content.splitlines()[:20] if kind else [file.content]
        assert [str(e) for d in documents for e in checks[kind].iter_errors(json.loads(d))] == []

    return check


def planted(name="m", *scores, **rest):
    """Return a row that can be a record."""
    request = "sha256:" + sha256(name.encode()).hexdigest()
    return result(name, *(scores or [score()]), **{"request": request, "run": RUN} | rest)


def exported(folder, *rows, organization=""):
    return list(records(selection(folder, board(*rows)), Source(folder, MODELS, organization)))


def with_items(folder, name="m", metric="accuracy"):
    table = item_table(Examples(["a.png", "b.png"], ["1", "2"]), metric, {"shots": 5}, [1.0, 0.0])
    return planted(name, artifacts=save_artifacts(folder, "t", name, {"items": table}))


def record(file):
    return json.loads(file.content)


def first_of_each(boards):
    """Return the boards with the first row that each has for a board or for a model."""
    models = set()
    for one in boards:
        scored = [row for row in one.results if row.status == "ok"]
        kept = [row for i, row in enumerate(scored) if i == 0 or row.model not in models]
        models |= {row.model for row in kept}
        yield replace(one, results=kept)


def test_a_row_of_every_shipped_board_and_model_is_a_valid_record(valid, shipped, shipped_boards):
    boards = [one for one in shipped_boards if (shipped / f"{one.task}.json").is_file()]
    chosen = list(first_of_each(boards))
    found = list(records(selection(shipped, *chosen), Source(shipped, MODELS)))
    files = [one for one in found if isinstance(one, File)]
    assert [one for one in found if isinstance(one, LeftOut)] == []
    rows = sum(len(one.results) for one in chosen)
    assert len([one for one in files if one.place.endswith(".json")]) == rows > 30
    for file in files:
        valid(file)


def test_a_summary_is_no_record(shipped, shipped_boards):
    summaries = [b for b in shipped_boards if (shipped / "summaries" / f"{b.task}.json").is_file()]
    found = list(records(selection(shipped, *summaries), Source(shipped, MODELS)))
    assert {one.why for one in found} == {"it has no request, so no identity that lasts"}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_gives_a_valid_record_below_the_folder(valid, tmp_path, name):
    (file,) = exported(tmp_path, planted(name, notes=[name], paper=name))
    valid(file)
    assert re.fullmatch(r"data/vlbench/local/[\w.-]+/[0-9a-f-]{36}\.json", file.place)
    assert record(file)["model_info"]["name"] == name


def test_items_lie_beside_their_record_and_both_are_valid(valid, tmp_path):
    whole, samples = exported(tmp_path, with_items(tmp_path))
    valid(whole)
    valid(samples)
    assert samples.place == whole.place.replace(".json", "_samples.jsonl")
    sidecar = record(whole)["detailed_evaluation_results"]
    assert sidecar["checksum"] == sha256(samples.content).hexdigest()
    assert (sidecar["file_path"], sidecar["total_rows"]) == (samples.place, 2)
    assert record(whole)["source_metadata"]["source_type"] == "evaluation_run"


def test_items_name_the_record_and_the_score_that_they_belong_to(tmp_path):
    whole, samples = exported(tmp_path, with_items(tmp_path))
    (line, _) = [json.loads(one) for one in samples.content.splitlines()]
    same = ("evaluation_id", "schema_version")
    assert [line[key] for key in same] == [record(whole)[key] for key in same]
    assert line["model_id"] == record(whole)["model_info"]["id"]
    (only,) = record(whole)["evaluation_results"]
    assert line["evaluation_result_id"] == only["evaluation_result_id"]


def test_a_row_whose_items_are_gone_is_a_record_without_them(valid, tmp_path):
    row = with_items(tmp_path)
    (tmp_path / row.artifacts["items"]["file"]).unlink()
    left_out, file = exported(tmp_path, row)
    valid(file)
    assert re.match("only its items: .* is absent; run the task again", left_out.why)
    assert "detailed_evaluation_results" not in record(file)


def test_the_id_is_that_of_the_request_and_never_of_the_time(tmp_path):
    (first,) = exported(tmp_path, planted())
    (later,) = exported(tmp_path, planted(run={"finished": "2030-01-01T00:00:00+00:00"}))
    (other,) = exported(tmp_path, planted(request="sha256:other"))
    assert first.place == later.place != other.place
    assert record(first)["evaluation_id"] == record(later)["evaluation_id"]
    found = uuid.UUID(first.place.rpartition("/")[2].removesuffix(".json"))
    digest = sha256(record(first)["evaluation_id"].encode()).digest()
    assert (found, found.version) == (uuid.UUID(bytes=digest[:16], version=4), 4)


def test_exported_twice_is_the_same(tmp_path):
    row = with_items(tmp_path)
    assert exported(tmp_path, row) == exported(tmp_path, row)


@pytest.mark.parametrize("finished", ["2026-11-21T23:31:21+00:00", "2026-11-21T23:31:21"])
def test_the_time_is_that_of_the_row(tmp_path, finished):
    (file,) = exported(tmp_path, planted(run={"finished": finished}))
    assert record(file)["retrieved_timestamp"] == "1795303881"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (planted(request=""), "it has no request, so no identity that lasts"),
        (planted(run={}), "it does not say when it was finished"),
        (planted(run={"finished": "lately"}), "it does not say when it was finished"),
        (planted(run={"finished": 7}), "it does not say when it was finished"),
        (planted("m", score(1.5)), "accuracy of 1.5 lies outside its range"),
    ],
)
def test_a_row_that_can_be_no_record_says_why(tmp_path, row, why):
    assert exported(tmp_path, row) == [LeftOut(row, why)]


def test_two_rows_of_one_request_are_not_written_over_each_other(tmp_path):
    file, left_out = exported(tmp_path, planted(), planted(comparable="other"))
    assert isinstance(file, File)
    assert left_out.why == "another row answers the same request"


@pytest.mark.parametrize(
    ("organization", "name", "relation"),
    [("", "unknown", "other"), ("Local", "Local", "first_party"), ("Lab", "Lab", "third_party")],
)
def test_who_ran_a_row_is_not_guessed(tmp_path, organization, name, relation):
    (file,) = exported(tmp_path, planted(), organization=organization)
    source = record(file)["source_metadata"]
    assert (source["source_organization_name"], source["evaluator_relationship"]) == (
        name,
        relation,
    )


def test_the_model_says_where_its_weights_are_from(tmp_path):
    (file,) = exported(tmp_path, planted("tiny-clip"))
    details = record(file)["model_info"]["additional_details"]
    assert details["weights_from"] == "trained by scripts/train_tiny.py; Apache-2.0"
    assert (details["model_availability"], details["weights"]) == ("open_weights", "sha256:1")


def test_of_a_local_model_nobody_knows_whether_it_is_open(tmp_path):
    (file,) = exported(tmp_path, planted("mine"))
    details = record(file)["model_info"]["additional_details"]
    assert details["model_availability"] == "unknown"
