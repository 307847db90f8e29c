import json

import pytest
from planted_boards import board, measured, result, score, write

from vlbench.boards.board import read_board
from vlbench.errors import SpecError
from vlbench.report import leaders
from vlbench.report.leaders import (
    UNPUBLISHED,
    Leaders,
    build_leaders,
    read_comparisons,
    read_leaders,
    standing,
)
from vlbench.report.made import Made

# FAR gets 20 to 39 wrong, and NEAR the last two of them; the others are equal, so by name.
WRONG = [f"{i}.png" for i in range(20, 28)]
BEST, NEAR, FAR = ([1] * 40, [1] * 38 + [0] * 2, [1] * 20 + [0] * 20)


@pytest.fixture
def output(tmp_path):
    rows = [measured(tmp_path, m, one) for m, one in (("best", BEST), ("far", FAR), ("near", NEAR))]
    return write(tmp_path, board(*rows))


def test_who_cannot_be_told_apart_from_the_leader_is_tied(output):
    assert build_leaders(output) == [output / "comparisons" / "t.json"]
    found = read_leaders(output, "t")["a"]
    assert (found.leader, found.tied, found.untested) == ("best", ["near"], {})
    # McNemar's mid-p of 20 and of 2 losses, three times each: three models have three pairs.
    assert found.p == pytest.approx({"far": 3 * 0.5**20, "near": 3 * 0.5**2})


def test_the_file_is_as_it_is_agreed(output):
    (file,) = build_leaders(output)
    content = json.loads(file.read_text())
    assert (content["schema"], content["task"], content["version"]) == (1, "t", 1)
    (far, near) = content["sets"][0]["pairs"]
    assert (far["model"], far["difference"], far["items"], far["clusters"]) == ("far", 0.5, 40, 40)
    assert far["ci95"][0] < 0.5 < far["ci95"][1]
    assert (near["p"], near["p_all_pairs"]) == pytest.approx((0.25, 0.75))


def test_the_items_that_are_wrong_most_often_are_kept(output):
    (file,) = build_leaders(output)
    (found,) = json.loads(file.read_text())["sets"]
    assert [one["id"] for one in found["worst"]] == ["38.png", "39.png", *WRONG]
    assert read_leaders(output, "t")["a"].worst[0].credit == pytest.approx(1 / 3)


def test_a_file_of_before_wrong_items_were_kept_is_read(output):
    (file,) = build_leaders(output)
    content = json.loads(file.read_text())
    del content["sets"][0]["worst"]
    file.write_text(json.dumps(content))
    assert read_leaders(output, "t")["a"].worst == ()


def test_a_board_that_has_not_changed_is_not_compared_again(output, monkeypatch):
    made = Made(output)
    (file,) = build_leaders(output, keep=made.keep)
    made.save()
    first = file.read_bytes()
    monkeypatch.setattr(leaders, "items_of", None)
    assert build_leaders(output, keep=Made(output).keep) == [file]
    assert file.read_bytes() == first


def test_items_that_are_gone_are_noticed_though_the_board_is_as_it_was(output):
    made = Made(output)
    build_leaders(output, keep=made.keep)
    made.save()
    (output / "artifacts" / "t" / "far" / "items.parquet").unlink()
    build_leaders(output, keep=Made(output).keep)
    assert "far/items.parquet is absent" in read_leaders(output, "t")["a"].untested["far"]


def test_the_same_boards_give_the_same_bytes(output):
    (file,) = build_leaders(output)
    first = file.read_bytes()
    build_leaders(output)
    assert file.read_bytes() == first


def test_where_lower_is_better_the_leader_is_the_lowest_and_its_advantage_positive(tmp_path):
    rows = [measured(tmp_path, m, c, higher_is_better=False) for m, c in (("a", BEST), ("b", FAR))]
    (file,) = build_leaders(write(tmp_path, board(*rows)))
    (found,) = json.loads(file.read_text())["sets"]
    assert (found["leader"], found["pairs"][0]["difference"]) == ("b", 0.5)
    assert 0 < found["pairs"][0]["ci95"][0] < found["pairs"][0]["ci95"][1]


def test_each_set_of_comparable_rows_has_its_leader(tmp_path):
    rows = [measured(tmp_path, m, BEST, comparable=key) for m, key in (("a", "x"), ("b", "y"))]
    build_leaders(write(tmp_path, board(*rows)))
    found = read_leaders(tmp_path, "t")
    assert {key: one.leader for key, one in found.items()} == {"x": "a", "y": "b"}


def test_equal_scores_lead_by_name(tmp_path):
    rows = [measured(tmp_path, m, BEST) for m in ("b", "a")]
    build_leaders(write(tmp_path, board(*rows)))
    assert read_leaders(tmp_path, "t")["a"].leader == "a"


def test_what_cannot_be_tested_has_its_reason(tmp_path):
    random = {"weights": "random:0", "adapter": ""}
    rows = [
        measured(tmp_path, "best", NEAR),
        result("bare", score(0.1)),
        result("part", score(1.0), counts={"n": 1, "expected": 2}),
        result("random", score(1.0), provenance=random),
        result("other", score(1.0, "success")),
    ]
    build_leaders(write(tmp_path, board(*rows)))
    found = read_leaders(tmp_path, "t")["a"]
    assert (found.leader, found.p) == ("best", {})
    assert found.untested == {
        "bare": "its row keeps no items",
        "other": "it has no score accuracy (shots 5)",
        "part": "some of its data were missing",
        "random": "its weights are random",
    }


def test_a_leader_without_items_is_compared_with_none(tmp_path):
    build_leaders(write(tmp_path, board(result("a", score(1.0)), measured(tmp_path, "b", FAR))))
    found = read_leaders(tmp_path, "t")["a"]
    assert found.untested == {"b": "the leader cannot be compared: its row keeps no items"}
    assert found.p == {}


def test_a_board_of_skipped_rows_has_no_leader(tmp_path):
    rows = [result("a", status="skipped"), result("b", score(1.0, "success"))]
    assert build_leaders(write(tmp_path, board(*rows))) == []
    assert read_leaders(tmp_path, "t") == {}


def test_what_no_board_has_any_more_is_removed(output):
    build_leaders(output)
    (output / "t.json").unlink()
    assert build_leaders(output) == []
    assert list(output.glob("comparisons/*")) == []


KNOWS_NOTHING = {"provenance": {"weights": "none", "adapter": "controls", "control": True}}


def test_controls_and_rows_without_items_do_not_count_in_the_correction(tmp_path):
    rows = [measured(tmp_path, m, one) for m, one in (("best", BEST), ("far", FAR), ("near", NEAR))]
    controls = [measured(tmp_path, f"control-{i}", FAR, **KNOWS_NOTHING) for i in range(3)]
    bare = result("bare", score(0.1))
    build_leaders(write(tmp_path, board(*rows, *controls, bare)))
    found = read_leaders(tmp_path, "t")["a"]
    # McNemar's mid-p of 20 and of 2 losses; three models are tested, and have three pairs.
    expected = {"far": 3 * 0.5**20, "near": 3 * 0.5**2}
    expected |= {f"control-{i}": 3 * 0.5**20 for i in range(3)}
    assert found.p == pytest.approx(expected)
    assert standing("control-0", found) == "behind"


def test_a_model_beside_controls_alone_is_corrected_for_no_pair(tmp_path):
    rows = [measured(tmp_path, "best", BEST), measured(tmp_path, "noise", FAR, **KNOWS_NOTHING)]
    build_leaders(write(tmp_path, board(*rows)))
    found = read_leaders(tmp_path, "t")["a"]
    assert found.p == pytest.approx({"noise": 0.5**20})
    assert 0 < found.detectable["noise"] < 1


def test_a_control_does_not_lead_and_is_not_called_behind_where_it_is_ahead(tmp_path):
    rows = [measured(tmp_path, "noise", BEST, **KNOWS_NOTHING), measured(tmp_path, "far", FAR)]
    build_leaders(write(tmp_path, board(*rows)))
    found = read_leaders(tmp_path, "t")["a"]
    assert (found.leader, found.tied) == ("far", ["noise"])
    assert [standing(m, found) for m in ("far", "noise")] == ["leader", "tied"]


def test_among_controls_alone_the_best_leads(tmp_path):
    answers = {"constant": FAR, "noise": BEST, "random": FAR}
    rows = [measured(tmp_path, m, one, **KNOWS_NOTHING) for m, one in answers.items()]
    build_leaders(write(tmp_path, board(*rows)))
    found = read_leaders(tmp_path, "t")["a"]
    assert found.leader == "noise"
    assert found.p == pytest.approx(dict.fromkeys(("constant", "random"), 3 * 0.5**20))


def test_what_was_made_from_another_state_of_the_board_says_nothing(output):
    build_leaders(output)
    write(output, board(*read_board(output / "t.json").results[:2]))
    assert (read_leaders(output, "t"), read_comparisons(output, "t").is_outdated) == ({}, True)


def test_a_file_of_another_schema_is_refused(output):
    (file,) = build_leaders(output)
    file.write_text(file.read_text().replace('"schema": 1', '"schema": 2'))
    with pytest.raises(SpecError, match="has schema 2; run vlbench leaderboard build"):
        read_leaders(output, "t")


@pytest.mark.parametrize("text", ["{", '{"schema": 1}', "[]", '{"schema": 2}'])
def test_a_malformed_file_is_named_with_the_way_out(output, text):
    (file,) = build_leaders(output)
    file.write_text(text)
    with pytest.raises(SpecError, match=r"comparisons/t\.json: .*; run vlbench leaderboard build"):
        read_leaders(output, "t")


def test_a_task_that_is_no_files_name_is_refused(tmp_path):
    with pytest.raises(SpecError, match="is no file's name"):
        read_leaders(tmp_path, "../t")


def words(tied=(), tested=("b", "c"), untested=()):
    """Return the standing of a, which leads, of b and of c."""
    p = {model: 0.5 if model in tied else 0.01 for model in tested}
    leaders = Leaders("a", tied, dict(untested), p)
    return [standing(model, leaders) for model in "abc"]


def test_a_leader_told_apart_from_all_is_the_best():
    assert words() == ["best", "behind", "behind"]


def test_a_leader_that_is_not_told_apart_from_one_only_leads():
    assert words(tied=["b"]) == ["leader", "tied", "behind"]


def test_a_leader_that_was_not_tested_against_one_only_leads():
    found = words(tested=["b"], untested=[("c", "its row keeps no items")])
    assert found == ["leader", "behind", "untested"]


def test_a_leader_without_a_rival_is_not_the_best():
    assert words(tested=[]) == ["leader", "", ""]


@pytest.mark.parametrize("why", UNPUBLISHED)
def test_a_row_that_is_not_published_takes_nothing_from_the_best(why):
    assert words(untested=[("random", why)]) == ["best", "behind", "behind"]


def test_without_a_comparison_nothing_is_known():
    assert standing("a", None) == ""
