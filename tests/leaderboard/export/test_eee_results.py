from planted_boards import board, result, score
from planted_exports import referring, selection

from vlbench.leaderboard.export.eee_results import as_text, as_texts, result_id, result_of


def found(folder, row, **rest):
    (part,) = selection(folder, board(row), **rest).parts
    return result_of(part.entries[0], 0)


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
