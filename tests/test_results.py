import json

import numpy as np
import pytest

from vlbench.results import Outcome, Result, Score, gain_range, matching, score_row
from vlbench.schema import read

NAN, INF = float("nan"), float("inf")


def result(**rest):
    given = {"task": "t", "version": 1, "paper": "p", "primary": {}, "model": "m", "status": "ok"}
    return Result(**(given | rest))


@pytest.mark.parametrize(
    "numbers",
    [
        {"value": NAN},
        {"value": INF},
        {"stderr": NAN},
        {"chance": -INF},
        {"ci95": (0.1, INF)},
        {"floors": {"pixels": NAN}},
        {"draws": [0.5, NAN]},
        {"halves": [0.5, NAN]},
    ],
)
def test_a_score_that_is_not_finite_is_refused(numbers):
    with pytest.raises(ValueError, match=r"accuracy at \{'shots': 5\} is not finite"):
        Score(**({"metric": "accuracy", "value": 0.5, "n": 4, "at": {"shots": 5}} | numbers))


def test_a_condition_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        Score(metric="accuracy", value=0.5, n=4, at={"epsilon": INF})


@pytest.mark.parametrize(
    "numbers",
    [
        {"value": np.float32(0.5)},
        {"n": np.int64(4)},
        {"at": {"k": np.int64(1)}},
        {"draws": [np.float32(0.5)]},
        {"higher_is_better": np.bool_(1)},
        {"value": True},
        {"n": 4.0},
        {"at": {"k": True}},
    ],
)
def test_a_number_that_a_board_cannot_hold_is_refused(numbers):
    with pytest.raises(TypeError, match=r"is of type \w+; give (int|bool)"):
        Score(**({"metric": "accuracy", "value": 0.5, "n": 4} | numbers))


@pytest.mark.parametrize("texts", [{"metric": 5}, {"at": {1: "k"}}, {"floors": {None: 0.5}}])
def test_a_score_whose_names_are_no_texts_is_refused(texts):
    with pytest.raises(TypeError, match=r"is of type \w+; give str"):
        Score(**({"metric": "accuracy", "value": 0.5, "n": 4} | texts))


def test_an_interval_of_one_number_is_refused():
    with pytest.raises(ValueError, match=r"accuracy at \{\} has a ci95 of 1 numbers"):
        Score(metric="accuracy", value=0.5, n=4, ci95=(0.5,))


@pytest.mark.parametrize("count", [np.int64(3), 0.5, True])
def test_a_count_that_a_board_cannot_hold_is_refused(count):
    with pytest.raises(TypeError, match=r"is of type (int64|float|bool); give int"):
        Outcome(scores=[], counts={"ties": count})


@pytest.mark.parametrize("said", [{"notes": [5]}, {"counts": {1: 1}}])
def test_an_outcome_whose_words_are_no_texts_is_refused(said):
    with pytest.raises(TypeError, match=r"[15] is of type int; give str"):
        Outcome(scores=[], **said)


@pytest.mark.parametrize(
    ("counts", "partial"),
    [({"n": 4, "expected": 5}, True), ({"n": 4, "expected": 4}, False), ({}, False)],
)
def test_a_result_is_partial_where_official_rows_are_missing(counts, partial):
    assert result(counts=counts).is_partial is partial


def test_a_row_has_every_key_and_what_is_the_boards_is_not_among_them():
    assert list(result().row()) == [
        *("model", "status", "reason", "comparable", "request", "scores", "counts"),
        *("artifacts", "notes", "provenance", "run"),
    ]


def test_a_score_in_a_row_has_every_key():
    row = result(scores=[Score(metric="accuracy", value=0.5, n=4)]).row()
    (score,) = row["scores"]
    assert (score["metric"], score["value"], score["n"]) == ("accuracy", 0.5, 4)
    empty = {"at": {}, "stderr": None, "ci95": None, "chance": None, "floors": {}, "draws": ()}
    assert {key: score[key] for key in empty} == empty
    assert set(score) - set(empty) == {"metric", "value", "n", "unit", "higher_is_better"}


def test_a_row_can_be_written_as_json():
    score = Score(metric="a", value=0.5, n=4, at={"k": 1}, ci95=(0.4, 0.6), draws=[0.5])
    written = json.loads(json.dumps(result(scores=[score]).row(), allow_nan=False))
    assert written["scores"][0]["ci95"] == [0.4, 0.6]
    assert written["scores"][0]["at"] == {"k": 1}


def test_a_row_is_a_copy():
    score = Score(metric="a", value=0.5, n=4, floors={"pixels": 0.1})
    result(scores=[score]).row()["scores"][0]["floors"]["pixels"] = 9
    assert score.floors == {"pixels": 0.1}


def test_a_primary_matches_the_metric_under_exactly_its_conditions():
    scores = [
        Score(metric=metric, value=0.5, n=4, at=at)
        for metric, at in [("a", {}), ("a", {"k": 1}), ("a", {"k": 1, "l": 2}), ("b", {"k": 1})]
    ]
    assert matching(scores, {"metric": "a", "at": {"k": 1}}) == [scores[1]]
    assert matching(scores, {"metric": "a"}) == [scores[0]]
    assert matching(scores, {"metric": "c"}) == []


def test_two_scores_of_one_name_match_twice():
    score = Score(metric="a", value=0.5, n=4)
    assert len(matching([score, score], {"metric": "a"})) == 2


def test_an_outcome_needs_only_scores():
    outcome = Outcome(scores=[])
    assert (outcome.counts, outcome.artifacts, list(outcome.notes)) == ({}, {}, [])


def test_a_text_that_utf8_cannot_hold_is_refused_but_in_notes():
    with pytest.raises(ValueError, match="cannot be encoded as UTF-8"):
        Score("a\ud800", 0.5, 1)
    with pytest.raises(ValueError, match="cannot be encoded as UTF-8"):
        Score("a", 0.5, 1, {"k": "\ud800"})
    assert Outcome([], notes=["a \ud800"]).notes == ["a \ud800"]


def test_items_are_saved_with_the_artifacts():
    from vlbench.metrics.items import Examples, item_table

    items = item_table(Examples(["a"], ["1"]), "accuracy", {}, [1.0])
    assert Outcome([], artifacts={"x": items}, items=items).saved() == {"x": items, "items": items}
    assert Outcome([]).saved() == {}


def test_items_without_their_columns_are_refused():
    import pyarrow as pa

    with pytest.raises(ValueError, match="items do not have the columns at, cluster, credit"):
        Outcome([], items=pa.table({"id": ["a"]}))


def test_no_artifact_takes_the_name_of_the_items():
    import pyarrow as pa

    with pytest.raises(ValueError, match="an artifact is named 'items'; give the table as `items`"):
        Outcome([], artifacts={"items": pa.table({"id": ["a"]})})


@pytest.mark.parametrize(
    ("unit", "limits", "value", "is_possible"),
    [
        ("fraction", None, 1.0, True),
        ("probability", None, 1.01, False),
        ("fraction", None, -0.01, False),
        ("fraction", (-1.0, 1.0), -0.2, True),
        ("correlation", None, -1.01, False),
        ("classes", None, 1e9, True),
        ("classes", None, -1.0, False),
        ("words", (None, None), -1.0, True),
        ("unit of a stranger", None, -1e9, True),
    ],
)
def test_a_score_knows_whether_its_value_is_possible(unit, limits, value, is_possible):
    score = Score("m", value, 4, unit=unit, range=limits)
    assert score.is_possible is is_possible


@pytest.mark.parametrize(
    ("given", "unit", "cut"),
    [
        ((-0.2, 1.2), "fraction", (0.0, 1.0)),
        ((0.2, 0.7), "fraction", (0.2, 0.7)),
        ((-3.0, 9.0), "words", (0.0, 9.0)),
        ((-3.0, 9.0), "score", (-3.0, 9.0)),
        (None, "fraction", None),
    ],
)
def test_an_interval_is_cut_to_what_the_score_can_be(given, unit, cut):
    assert Score("m", 0.5, 4, ci95=given, unit=unit).within_limits().ci95 == cut


def test_the_interval_of_an_impossible_value_is_left_to_be_seen():
    assert Score("m", -1.5, 4, ci95=(-1.6, -1.4)).within_limits().ci95 == (-1.6, -1.4)


def test_a_row_says_a_range_only_where_it_is_not_that_of_the_unit():
    plain, drop = Score("accuracy", 0.5, 4), Score("drop", 0.5, 4, range=(-1.0, 1.0))
    assert "range" not in score_row(plain)
    assert score_row(drop)["range"] == (-1.0, 1.0)
    assert result(scores=[drop]).row()["scores"] == [score_row(drop)]


def test_a_row_has_halves_only_where_the_score_does():
    row = score_row(Score("accuracy", 0.5, 4, chance=0.1, halves=[0.4, 0.6]))
    assert read(Score, json.loads(json.dumps(row))).halves == [0.4, 0.6]
    assert "halves" not in score_row(Score("accuracy", 0.5, 4, chance=0.1))


def test_a_row_has_a_verdict_only_where_the_score_does():
    row = score_row(Score("gap", 0.5, 4, verdict="no finding", higher_is_better=None))
    assert read(Score, json.loads(json.dumps(row))).verdict == "no finding"
    assert "verdict" not in score_row(Score("gap", 0.5, 4))


def test_a_row_says_why_a_score_has_no_chance_only_where_it_does():
    row = score_row(Score("length", 8, 4, unit="words", no_chance="describes"))
    assert row["no_chance"] == "describes"
    assert read(Score, json.loads(json.dumps(row))).no_chance == "describes"
    assert "no_chance" not in score_row(Score("accuracy", 0.5, 4, chance=0.1))


def test_a_difference_has_twice_the_range():
    assert gain_range((0.0, 10.0)) == (-10.0, 10.0)
    assert gain_range((-1.0, 1.0)) == (-2.0, 2.0)
    assert gain_range((0.0, None)) == (None, None)


def test_a_range_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        Score("accuracy", 0.5, 4, range=(0.0, INF))


@pytest.mark.parametrize("given", [None, "trials", ["trials"], 3])
def test_parameters_that_are_no_mapping_mark_no_row(given):
    row = result(provenance={"task_params": given})
    assert (row.task_params, row.label) == ({}, "m")
