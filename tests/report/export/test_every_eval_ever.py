import json
import re
import uuid
from dataclasses import replace
from hashlib import sha256

import pyarrow as pa
import pytest
from every_eval_ever import (
    Scores,
    as_text,
    as_texts,
    files,
    main,
    result_id,
    result_of,
    sample_lines,
)
from jsonschema import Draft7Validator
from planted_boards import board, result, score, write
from planted_exports import HOSTILE, referring, selection

from vlbench.boards.board import folder_boards, read_board, save_artifacts
from vlbench.catalog.catalog import Catalog, load_catalog
from vlbench.errors import DataError
from vlbench.metrics.items import Answers, Examples, item_table
from vlbench.report.building import build_summaries
from vlbench.report.export import File, LeftOut
from vlbench.report.rows import unpublished

CATALOG = Catalog({}, load_catalog().models)
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
    return list(files(selection(folder, board(*rows), catalog=CATALOG), organization))


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


@pytest.mark.nightly
def test_a_row_of_every_shipped_board_and_model_is_a_valid_record(valid, shipped, shipped_boards):
    boards = [one for one in shipped_boards if (shipped / f"{one.task}.json").is_file()]
    chosen = list(first_of_each(boards))
    found = list(files(selection(shipped, *chosen, catalog=CATALOG)))
    written = [one for one in found if isinstance(one, File)]
    assert [one for one in found if isinstance(one, LeftOut)] == []
    rows = sum(not unpublished(row) for one in chosen for row in one.results)
    assert len([one for one in written if one.place.endswith(".json")]) == rows > 30
    for file in written:
        valid(file)


def test_a_summary_is_no_record(tmp_path):
    write(tmp_path, board(planted(), task="a"), board(planted(), task="b"))
    (file,) = build_summaries(tmp_path, folder_boards(tmp_path), {"both": ["a", "b"]}, {})
    found = list(files(selection(tmp_path, read_board(file), catalog=CATALOG)))
    assert {one.why for one in found} == {"it has no request, so it has no lasting identity"}


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
    assert re.match("only its items: .* is missing; run the task again", left_out.why)
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


NO_RECORDS = [
    (planted(request=""), "it has no request, so it has no lasting identity"),
    (planted(run={}), "it does not record when it finished"),
    (planted(run={"finished": "lately"}), "it does not record when it finished"),
    (planted(run={"finished": 7}), "it does not record when it finished"),
    (planted("m", score(-0.5)), "accuracy of -0.5 is outside its range"),
]


@pytest.mark.parametrize(("row", "why"), NO_RECORDS)
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
    assert record(file)["model_info"]["additional_details"]["model_availability"] == "unknown"


def found(folder, row, **rest):
    (entry,) = selection(folder, board(row), **rest).entries
    return result_of(entry, 0)


def test_a_score_has_its_metric_bounds_and_uncertainty(tmp_path):
    one = found(tmp_path, result("m", score(0.5, stderr=0.125, ci95=(0.25, 0.75), n=7)))
    metric, details = one["metric_config"], one["score_details"]
    assert (metric["metric_id"], metric["metric_unit"]) == ("accuracy", "proportion")
    assert (metric["min_score"], metric["max_score"], metric["lower_is_better"]) == (
        0.0,
        1.0,
        False,
    )
    assert details["uncertainty"] == {
        "num_samples": 7,
        "standard_error": {"value": 0.125},
        "confidence_interval": {"lower": 0.25, "upper": 0.75, "confidence_level": 0.95},
    }


def test_a_drop_may_be_negative_and_a_count_has_no_end(tmp_path):
    drop = found(
        tmp_path, result("m", score(-0.1, "drop", range=(-1.0, 1.0), higher_is_better=False))
    )
    count = found(tmp_path, result("m", score(7, "n_classes", unit="classes")))
    assert (drop["metric_config"]["min_score"], count["metric_config"]["max_score"]) == (
        -1.0,
        "Infinity",
    )
    assert drop["metric_config"]["lower_is_better"] is True
    assert count["metric_config"]["metric_unit"] == "classes"


def test_a_score_of_an_unknown_unit_has_no_bounds(tmp_path):
    metric = found(tmp_path, result("m", score(3.0, "mine", unit="my unit")))["metric_config"]
    assert metric["metric_id"] == "vlbench.mine"
    assert set(metric) & {"score_type", "min_score", "max_score"} == set()


def test_all_details_are_texts(tmp_path):
    row = result("m", score(0.5, chance=0.1, floors={"pixels": 0.2}), notes=["mind this"])
    details = found(tmp_path, row, catalog=referring(0.25))["score_details"]["details"]
    assert details == {
        "at": '{"shots": 5}',
        "comparable": "a",
        "chance": "0.1",
        "floor.pixels": "0.2",
        "published": "0.25",
        "published_where": "Table 1",
        "note.0": "mind this",
    }


def test_data_of_the_hub_are_named_as_there(tmp_path):
    row = result("m", score(), provenance={"data": "vlbench.data.mnist:mnist sha256:1"})
    data = found(tmp_path, row)["source_data"]
    assert (data["source_type"], data["hf_repo"]) == ("hf_dataset", "ylecun/mnist")
    assert data["additional_details"]["data"] == "vlbench.data.mnist:mnist sha256:1"


def test_other_data_are_named_by_their_loader(tmp_path):
    row = result("m", score(), provenance={"data": "vlbench.data.scenes:objects sha256:1"})
    data = found(tmp_path, row)["source_data"]
    assert (data["source_type"], data["dataset_name"]) == ("other", "vlbench.data.scenes:objects")


def test_scores_of_a_row_have_ids_of_their_own():
    row = result("m", score(), score(at={}), score(at={"shots": 1}), score(metric="x"))
    ids = [result_id(row, one) for one in row.scores]
    assert ids[:2] == ["t.v1/accuracy/shots=5", "t.v1/accuracy"]
    assert len(set(ids)) == 4


def test_a_mapping_becomes_texts():
    assert as_texts({"a": "x", "b": 1, "c": {"d": [2]}}) == {"a": "x", "b": "1", "c": '{"d": [2]}'}
    assert as_texts(None) == {}
    assert as_text({"b": 1, "a": "é"}) == '{"a": "é", "b": 1}'


AT = '{"shots": 5}'
EXAMPLES = Examples(["one.png", "two.png"], ["sha256:1", "sha256:2"])


def lines_of(folder, table, shown=None):
    saved = save_artifacts(folder, "t", "m", {"items": table})
    scores = Scores({"evaluation_id": "x"}, {("accuracy", AT): ("r", shown or score())})
    return list(sample_lines(folder, result("m", artifacts=saved), scores))


def items(credit, chosen=(0, 0)):
    answers = Answers(["cat", "dog"], chosen, [0, 1])
    return item_table(EXAMPLES, "accuracy", {"shots": 5}, credit, answers)


def test_an_item_has_its_id_answer_target_and_credit(tmp_path):
    first, second = lines_of(tmp_path, items([1.0, 0.0]))
    assert (first["sample_id"], first["evaluation_result_id"]) == ("one.png", "r")
    assert second["input"] == {"raw": "two.png sha256:2", "reference": ["dog"]}
    assert second["output"] == {"raw": ["cat"]}
    assert [one["evaluation"] for one in (first, second)] == [
        {"score": 1.0, "is_correct": True},
        {"score": 0.0, "is_correct": False},
    ]


def test_the_trials_of_an_item_are_one_record_with_the_mean(tmp_path):
    table = items([[1.0, 1.0], [1.0, 0.5]], chosen=[[0, 1], [0, -1]])
    first, second = lines_of(tmp_path, table)
    assert first["evaluation"] == {"score": 1.0, "is_correct": True}
    assert second["evaluation"] == {"score": 0.75, "is_correct": False}
    assert (first["output"]["raw"], second["output"]["raw"]) == (["cat", "cat"], ["dog"])


def test_where_lower_is_better_the_lowest_credit_is_right(tmp_path):
    found = lines_of(tmp_path, items([1.0, 0.0]), score(higher_is_better=False))
    assert [one["evaluation"]["is_correct"] for one in found] == [False, True]


def test_the_same_item_has_the_same_hash_whatever_the_answer(tmp_path):
    first = lines_of(tmp_path, items([1.0, 0.0]))
    again = lines_of(tmp_path, items([0.0, 1.0], chosen=[1, 1]))
    assert [one["sample_hash"] for one in first] == [one["sample_hash"] for one in again]
    assert first[0]["sample_hash"] != first[1]["sample_hash"]


def test_an_item_without_answer_and_target_has_neither(tmp_path):
    (found, _) = lines_of(tmp_path, item_table(EXAMPLES, "accuracy", {"shots": 5}, [1.0, 1.0]))
    assert (found["output"], found["input"]["reference"]) == ({"raw": []}, [])


def test_items_of_a_corpus_score_are_left_out(tmp_path):
    table = items([1.0, 0.0]).append_column(
        "statistics", pa.array([[1.0, 2.0], None], pa.list_(pa.float64()))
    )
    (found,) = lines_of(tmp_path, table)
    assert found["sample_id"] == "two.png"


def test_items_of_another_score_are_refused(tmp_path):
    table = item_table(EXAMPLES, "other", {"shots": 5}, [1.0, 0.0])
    with pytest.raises(DataError, match="a score that the row does not have: other at"):
        lines_of(tmp_path, table)


def test_the_script_writes_records_below_a_folder(tmp_path, capsys):
    write(tmp_path, board(planted(), result("other", status="skipped", reason="no TextEncoder")))
    assert main(["t", "--to", str(tmp_path / "eee"), "--output", str(tmp_path)]) == 0
    (file,) = (tmp_path / "eee").rglob("*.json")
    assert json.loads(file.read_text())["model_info"]["id"] == "local/m"
    said = capsys.readouterr()
    assert said.out == f"wrote 1 file below {tmp_path / 'eee'}\n"
    assert said.err == "t: left out (skipped, no TextEncoder): other\n"


def test_the_script_names_a_model_that_is_not_there(tmp_path, capsys):
    write(tmp_path, board(planted()))
    with pytest.raises(SystemExit, match="2"):
        main(["--to", str(tmp_path / "eee"), "--output", str(tmp_path), "--models", "n"])
    assert "no model is named 'n'" in capsys.readouterr().err
