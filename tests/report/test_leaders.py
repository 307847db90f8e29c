import pytest
from planted_boards import board, measured, result, score, write

from vlbench.boards.board import read_board
from vlbench.report.leaders import UNPUBLISHED, Leaders, leaders_of, standing

# FAR gets 20 to 39 wrong, and NEAR the last two of them; the others are equal, so by name.
WRONG = [f"{i}.png" for i in range(20, 28)]
BEST, NEAR, FAR = ([1] * 40, [1] * 38 + [0] * 2, [1] * 20 + [0] * 20)


def led(folder):
    return leaders_of(folder, read_board(folder / "t.json"), with_worst=True)


@pytest.fixture
def output(tmp_path):
    rows = [measured(tmp_path, m, one) for m, one in (("best", BEST), ("far", FAR), ("near", NEAR))]
    return write(tmp_path, board(*rows))


def test_who_cannot_be_told_apart_from_the_leader_is_tied(output):
    found = led(output)["a"]
    assert (found.leader, found.tied, found.untested) == ("best", ["near"], {})
    # McNemar's mid-p of 20 and of 2 losses, three times each: three models have three pairs.
    assert found.p == pytest.approx({"far": 3 * 0.5**20, "near": 3 * 0.5**2})


def test_the_items_that_are_wrong_most_often_are_kept(output):
    found = led(output)["a"]
    assert [one.id for one in found.worst] == ["38.png", "39.png", *WRONG]
    assert found.worst[0].credit == pytest.approx(1 / 3)


def test_where_lower_is_better_the_leader_is_the_lowest_and_ahead(tmp_path):
    rows = [measured(tmp_path, m, c, higher_is_better=False) for m, c in (("a", BEST), ("b", FAR))]
    (found,) = led(write(tmp_path, board(*rows))).values()
    assert (found.leader, found.tied, [*found.p]) == ("b", [], ["a"])


def test_nobody_leads_by_a_score_without_a_direction(tmp_path):
    rows = [measured(tmp_path, m, c, higher_is_better=None) for m, c in (("a", BEST), ("b", FAR))]
    assert not led(write(tmp_path, board(*rows)))


def test_each_set_of_comparable_rows_has_its_leader(tmp_path):
    rows = [measured(tmp_path, m, BEST, comparable=key) for m, key in (("a", "x"), ("b", "y"))]
    found = led(write(tmp_path, board(*rows)))
    assert {key: one.leader for key, one in found.items()} == {"x": "a", "y": "b"}


def test_equal_scores_lead_by_name(tmp_path):
    rows = [measured(tmp_path, m, BEST) for m in ("b", "a")]
    assert led(write(tmp_path, board(*rows)))["a"].leader == "a"


def test_what_cannot_be_tested_has_its_reason(tmp_path):
    random = {"weights": "random:0", "adapter": ""}
    rows = [
        measured(tmp_path, "best", NEAR),
        result("bare", score(0.1)),
        result("part", score(1.0), counts={"n": 1, "expected": 2}),
        result("random", score(1.0), provenance=random),
        result("other", score(1.0, "success")),
    ]
    found = led(write(tmp_path, board(*rows)))["a"]
    assert (found.leader, found.p) == ("best", {})
    assert found.untested == {
        "bare": "its row has no items",
        "other": "it has no score accuracy (shots 5)",
        "part": "some of its data were missing",
        "random": "its weights are random",
    }


def test_a_leader_without_items_is_compared_with_none(tmp_path):
    found = led(write(tmp_path, board(result("a", score(1.0)), measured(tmp_path, "b", FAR))))["a"]
    assert found.untested == {"b": "the leader cannot be compared: its row has no items"}
    assert found.p == {}


def test_a_summary_has_no_leader(output):
    summary = read_board(output / "t.json")
    (output / "t.json").unlink()
    assert leaders_of(output, summary) == {}


def test_a_board_of_skipped_rows_has_no_leader(tmp_path):
    rows = [result("a", status="skipped"), result("b", score(1.0, "success"))]
    assert led(write(tmp_path, board(*rows))) == {}


KNOWS_NOTHING = {"provenance": {"weights": "none", "adapter": "controls", "control": True}}


def test_controls_and_rows_without_items_do_not_count_in_the_correction(tmp_path):
    rows = [measured(tmp_path, m, one) for m, one in (("best", BEST), ("far", FAR), ("near", NEAR))]
    controls = [measured(tmp_path, f"control-{i}", FAR, **KNOWS_NOTHING) for i in range(3)]
    bare = result("bare", score(0.1))
    found = led(write(tmp_path, board(*rows, *controls, bare)))["a"]
    # McNemar's mid-p of 20 and of 2 losses; three models are tested, and have three pairs.
    expected = {"far": 3 * 0.5**20, "near": 3 * 0.5**2}
    expected |= {f"control-{i}": 3 * 0.5**20 for i in range(3)}
    assert found.p == pytest.approx(expected)
    assert standing("control-0", found) == "behind"


def test_the_items_that_are_wrong_most_often_are_so_without_controls(tmp_path):
    rows = [measured(tmp_path, m, one) for m, one in (("best", BEST), ("near", NEAR))]
    controls = [measured(tmp_path, f"control-{i}", FAR, **KNOWS_NOTHING) for i in range(3)]
    found = led(write(tmp_path, board(*rows, *controls)))["a"]
    assert [(one.id, one.credit, one.models) for one in found.worst] == [
        ("38.png", 0.5, 2),
        ("39.png", 0.5, 2),
    ]
    (blind,) = led(write(tmp_path, board(*controls))).values()
    assert blind.worst[0].models == 3


def test_a_model_beside_controls_alone_is_corrected_for_no_pair(tmp_path):
    rows = [measured(tmp_path, "best", BEST), measured(tmp_path, "noise", FAR, **KNOWS_NOTHING)]
    found = led(write(tmp_path, board(*rows)))["a"]
    assert found.p == pytest.approx({"noise": 0.5**20})
    assert 0 < found.detectable["noise"] < 1


def test_a_control_does_not_lead_and_is_not_called_behind_where_it_is_ahead(tmp_path):
    rows = [measured(tmp_path, "noise", BEST, **KNOWS_NOTHING), measured(tmp_path, "far", FAR)]
    found = led(write(tmp_path, board(*rows)))["a"]
    assert (found.leader, found.tied) == ("far", ["noise"])
    assert [standing(m, found) for m in ("far", "noise")] == ["leader", "tied"]


def test_among_controls_alone_the_best_leads(tmp_path):
    answers = {"constant": FAR, "noise": BEST, "random": FAR}
    rows = [measured(tmp_path, m, one, **KNOWS_NOTHING) for m, one in answers.items()]
    found = led(write(tmp_path, board(*rows)))["a"]
    assert found.leader == "noise"
    assert found.p == pytest.approx(dict.fromkeys(("constant", "random"), 3 * 0.5**20))


def words(tied=(), tested=("b", "c"), untested=()):
    """Return the standing of a, which leads, of b and of c."""
    p = {model: 0.5 if model in tied else 0.01 for model in tested}
    leaders = Leaders("a", tied, dict(untested), p)
    return [standing(model, leaders) for model in "abc"]


def test_a_leader_told_apart_from_all_is_the_best():
    assert words() == ["clear leader", "behind", "behind"]


def test_a_leader_that_is_not_told_apart_from_one_only_leads():
    assert words(tied=["b"]) == ["leader", "tied", "behind"]


def test_a_leader_that_was_not_tested_against_one_only_leads():
    found = words(tested=["b"], untested=[("c", "its row has no items")])
    assert found == ["leader", "behind", "not tested"]


def test_a_leader_without_a_rival_is_not_the_best():
    assert words(tested=[]) == ["leader", "", ""]


@pytest.mark.parametrize("why", UNPUBLISHED)
def test_a_row_that_is_not_published_takes_nothing_from_the_best(why):
    assert words(untested=[("random", why)]) == ["clear leader", "behind", "behind"]


def test_without_a_comparison_nothing_is_known():
    assert standing("a", None) == ""
