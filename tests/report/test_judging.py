import math
from pathlib import Path

import numpy as np
import pytest
from planted_boards import board, counts, measured, result, score, write
from planted_findings import catalog, finding, findings, task
from scipy import stats

from vlbench.catalog.findings import Finding
from vlbench.metrics.intervals import Z95
from vlbench.report.judging import (
    Evidence,
    Lack,
    Pairing,
    Term,
    counted_row,
    difference_interval,
    judge,
    pair,
    read_boards,
    tail,
    verdict,
)

A_OVER_B = "greater: [{model: a}, {model: b}]"


def wald(value, stderr, **rest):
    """Plant a score whose interval is value +- 1.96 stderr."""
    return score(value, stderr=stderr, ci95=(value - 1.96 * stderr, value + 1.96 * stderr), **rest)


def found(folder, entry, *rows, tasks=(), **boards):
    known = catalog(task(), *tasks)
    return judge(finding(folder, entry), Evidence({"t": board(*rows), **boards}, known, folder))


LEADS = [
    (0.60, 0.50, "supported"),
    (0.50, 0.60, "contradicted"),
    (0.51, 0.50, "undecided"),
    (0.50, 0.50, "undecided"),
]


@pytest.mark.parametrize(("a", "b", "verdict"), LEADS)
def test_a_lead_is_judged_by_where_its_interval_lies(tmp_path, a, b, verdict):
    judged = found(tmp_path, A_OVER_B, result("a", wald(a, 0.01)), result("b", wald(b, 0.01)))
    assert judged.verdict == verdict


def test_the_interval_of_symmetric_scores_is_that_of_independent_means(tmp_path):
    rows = result("a", wald(0.6, 0.03)), result("b", wald(0.5, 0.04))
    (compared,) = found(tmp_path, A_OVER_B, *rows).compared
    assert compared.values == [0.6, 0.5]
    assert compared.interval == pytest.approx((0.1 - 1.96 * 0.05, 0.1 + 1.96 * 0.05))


def test_the_interval_of_two_fractions_is_newcombes():
    # Newcombe 1998, Statistics in Medicine 17, table II (a): 56/70 less 48/80, method 10.
    wilson = [stats.binomtest(k, n).proportion_ci(method="wilson") for k, n in [(56, 70), (48, 80)]]
    sides = [
        [Term((str(p),), p, (one.low, one.high), "fraction")]
        for p, one in zip((0.8, 0.6), wilson, strict=True)
    ]
    assert difference_interval(sides) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_the_mean_of_scores_is_as_exact_as_independent_means_are():
    terms = [Term((name,), 0.5, (0.4, 0.6), "fraction") for name in "abcd"]
    assert difference_interval([terms]) == pytest.approx((0.45, 0.55))


def test_a_score_on_both_sides_is_counted_once():
    shared, other = (Term((name,), 0.5, (0.4, 0.6), "fraction") for name in "ab")
    low, high = difference_interval([[shared], [shared, other]])
    assert (low, high) == pytest.approx((-math.hypot(0.05, 0.05), math.hypot(0.05, 0.05)))


def test_a_score_without_an_interval_has_that_of_its_standard_error(tmp_path):
    rows = result("a", score(0.6, stderr=0.03)), result("b", score(0.5, stderr=0.04))
    (compared,) = found(tmp_path, A_OVER_B, *rows).compared
    assert compared.interval == pytest.approx((0.1 - 0.098, 0.1 + 0.098), abs=1e-5)


def test_a_score_with_neither_leaves_a_finding_undecided(tmp_path):
    judged = found(tmp_path, A_OVER_B, result("a", score(0.9)), result("b", wald(0.1, 0.01)))
    assert (judged.verdict, judged.compared[0].interval) == ("undecided", None)


def test_a_tie_of_certain_scores_is_undecided(tmp_path):
    rows = [result(name, score(0.5, ci95=(0.5, 0.5))) for name in "ab"]
    assert found(tmp_path, A_OVER_B, *rows).verdict == "undecided"


@pytest.mark.parametrize(("by", "verdict"), [(0.05, "supported"), (0.2, "contradicted")])
def test_a_lead_must_pass_its_margin(tmp_path, by, verdict):
    rows = result("a", wald(0.6, 0.01)), result("b", wald(0.5, 0.01))
    assert found(tmp_path, f"{A_OVER_B}, by: {by}", *rows).verdict == verdict


def test_a_negative_margin_lets_the_second_lead_by_less(tmp_path):
    rows = result("a", wald(0.50, 0.001)), result("b", wald(0.505, 0.001))
    assert found(tmp_path, f"{A_OVER_B}, by: -0.01", *rows).verdict == "supported"


RANGES = [
    ("[0.4, 0.6]", "supported"),
    ("[0.49, 0.6]", "undecided"),
    ("[0.6, 1]", "contradicted"),
    ("[0, 0.4]", "contradicted"),
]


@pytest.mark.parametrize(("limits", "verdict"), RANGES)
def test_a_range_is_judged_by_the_scores_own_interval(tmp_path, limits, verdict):
    judged = found(tmp_path, f"model: a, within: {limits}", result("a", wald(0.5, 0.02)))
    assert judged.verdict == verdict


def test_an_interval_may_touch_the_end_of_a_range(tmp_path):
    row = result("a", score(1.0, ci95=(0.9, 1.0)))
    assert found(tmp_path, "model: a, within: [0.9, 1]", row).verdict == "supported"


def test_a_range_has_no_end_where_the_score_has_none_beyond(tmp_path):
    # The upper half is short, for the interval ends at 1; the lower one alone decides.
    row = result("a", score(0.99, ci95=(0.9, 1.0)))
    assert found(tmp_path, "model: a, within: [0.5, 1]", row).p_for < 1e-6
    assert found(tmp_path, "model: a, within: [0.5, 0.99]", row).verdict == "undecided"


@pytest.mark.parametrize(
    ("c", "verdict"), [(0.1, "supported"), (0.5, "undecided"), (0.9, "contradicted")]
)
def test_an_order_is_as_good_as_its_worst_step(tmp_path, c, verdict):
    rows = [result(m, wald(v, 0.01)) for m, v in [("a", 0.7), ("b", 0.5), ("c", c)]]
    judged = found(tmp_path, "ordered: [{model: a}, {model: b}, {model: c}]", *rows)
    assert judged.verdict == verdict


def ordered(folder, *values):
    """Judge that each of some models leads the next, by scores whose standard error is 0.01."""
    names = [f"m{i}" for i in range(len(values))]
    sides = ", ".join(f"{{model: {name}}}" for name in names)
    rows = [result(name, wald(value, 0.01)) for name, value in zip(names, values, strict=True)]
    return found(folder, f"ordered: [{sides}]", *rows)


def test_what_must_all_hold_is_supported_by_plain_intervals(tmp_path):
    # Each lead is 2.1 standard errors: more than 1.96, and less than the 2.24 of Bonferroni.
    error = math.hypot(0.01, 0.01)
    judged = ordered(tmp_path, 0.5 + 4.2 * error, 0.5 + 2.1 * error, 0.5)
    assert judged.verdict == "supported"
    low, high = judged.compared[0].interval
    assert (low, high) == pytest.approx((0.14 * error, 4.06 * error), abs=1e-4)


def test_what_one_of_many_contradicts_is_corrected_for_their_number(tmp_path):
    error = math.hypot(0.01, 0.01)
    assert ordered(tmp_path, 0.5, 0.5 + 2.1 * error).verdict == "contradicted"
    assert ordered(tmp_path, 0.9, 0.5, 0.5 + 2.1 * error).verdict == "undecided"
    assert ordered(tmp_path, 0.9, 0.5, 0.5 + 2.3 * error).verdict == "contradicted"


def planted_differences(effects, draws, seed=0):
    """Return the lower and upper p-values of findings that effects exceed 0, [draws, effects]."""
    drawn = np.random.default_rng(seed).normal(effects, 1.0, (draws, len(effects)))
    below = np.array([[tail(x, (x - Z95, x + Z95), 0.0) for x in row] for row in drawn])
    return below, 1 - below


def test_a_finding_of_equal_models_is_hardly_ever_supported_and_seldom_contradicted():
    # Five comparisons, one of which fails by nothing at all: the worst case of each verdict.
    p_for, _ = planted_differences([0.0, 9.0, 9.0, 9.0, 9.0], 4000)
    _, p_against = planted_differences([0.0] * 5, 4000)
    supported = np.mean([verdict(max(row), 1.0) == "supported" for row in p_for])
    contradicted = np.mean([verdict(1.0, 5 * min(row)) == "contradicted" for row in p_against])
    assert 0.02 < supported < 0.031
    assert 0.019 < contradicted < 0.031


def test_the_p_of_an_interval_is_that_of_its_own_half():
    # R: pnorm(-1.5 / (0.5 / 1.96)), by hand for the ends, and 0.5 at the value itself.
    interval = (1.5, 3.0)
    assert tail(2.0, interval, 1.5) == pytest.approx(0.025)
    assert tail(2.0, interval, 3.0) == pytest.approx(0.975)
    assert tail(2.0, interval, 2.0) == pytest.approx(0.5)
    assert tail(2.0, interval, 1.75) == pytest.approx(stats.norm.sf(0.98), abs=1e-4)
    assert tail(2.0, interval, 2.5) == pytest.approx(stats.norm.cdf(0.98), abs=1e-4)
    assert [tail(2.0, interval, x) for x in (-math.inf, math.inf)] == [0.0, 1.0]


def test_an_interval_that_only_touches_the_limit_leaves_a_lead_undecided(tmp_path):
    rows = result("a", score(0.6, ci95=(0.5, 0.7))), result("b", score(0.5, ci95=(0.5, 0.5)))
    judged = found(tmp_path, A_OVER_B, *rows)
    assert (judged.compared[0].interval[0], judged.verdict) == (0.0, "undecided")


def test_a_score_may_be_held_against_its_chance_or_a_floor(tmp_path):
    row = result("a", wald(0.5, 0.01, chance=0.25, floors={"shuffled": 0.4}))
    entry = "model: a, greater: [{}, {floor: %s}]"
    assert found(tmp_path, entry % "chance", row).compared[0].values == [0.5, 0.4]
    assert found(tmp_path, entry % "shuffled", row).verdict == "supported"
    below = "model: a, greater: [{floor: chance}, {}]"
    assert found(tmp_path, below, row).compared[0].values == [0.25, 0.5]


def test_a_score_must_exceed_its_hardest_floor_and_not_chance_alone(tmp_path):
    entry = "model: a, greater: [{}, {floor: chance}]"
    blind = result("a", wald(0.5, 0.01, chance=0.25, floors={"text_only": 1.0, "other": 0.3}))
    assert found(tmp_path, entry, blind).verdict == "contradicted"
    lower = result("a", wald(0.5, 0.01, chance=0.25, floors={"b": 1.0}, higher_is_better=False))
    assert found(tmp_path, entry, lower).verdict == "supported"


def test_a_score_that_has_floors_and_no_chance_is_judged_by_its_floors(tmp_path):
    entry = "model: a, greater: [{}, {floor: chance}]"
    why = "a blind rule can beat chance; compare with the floors"
    for floor, outcome in ((0.7, "contradicted"), (0.4, "supported")):
        row = result("a", wald(0.6, 0.01, floors={"longest": 0.1, "b": floor}, no_chance=why))
        assert found(tmp_path, entry, row).verdict == outcome


@pytest.mark.parametrize(
    ("floor", "verdict"), [(0.3, "supported"), (0.5, "undecided"), (0.8, "undecided")]
)
def test_of_two_models_both_must_exceed_their_floor(tmp_path, floor, verdict):
    rows = [
        result(m, wald(v, 0.01, floors={"text_only": floor})) for m, v in (("a", 0.6), ("b", 0.5))
    ]
    assert found(tmp_path, "greater: [{model: a}, {model: b}]", *rows).verdict == verdict
    swapped = {"supported": "contradicted"}.get(verdict, verdict)
    assert found(tmp_path, "greater: [{model: b}, {model: a}]", *rows).verdict == swapped


def test_a_group_of_tasks_is_the_mean_of_its_tasks(tmp_path):
    pair = (wald(0.9, 0.01), wald(0.1, 0.01))
    boards = {"t": None} | {
        f"t{i}": board(result("a", s), task=f"t{i}") for i, s in enumerate(pair)
    }
    tasks = [task(group=["t0", "t1"]), task("t0"), task("t1")]
    judged = judge(
        finding(tmp_path, "model: a, within: [0, 1]"), Evidence(boards, catalog(*tasks), tmp_path)
    )
    assert judged.compared[0].values == [pytest.approx(0.5)]
    assert judged.compared[0].interval == pytest.approx((0.5 - 0.01386, 0.5 + 0.01386), abs=1e-5)


def test_scores_of_pairs_are_those_of_the_groups_summary(tmp_path):
    text = (
        "findings: [{finding: a, task: g, model: a, metric: rdm_correlation, within: [0.8, 1]}]\n"
    )
    (only,) = findings(tmp_path, text).findings
    boards = {"g": board(result("a", wald(0.9, 0.01, metric="rdm_correlation", at={})), task="g")}
    known = catalog(task("g", group=["t"]), task())
    assert judge(only, Evidence(boards, known, tmp_path)).verdict == "supported"


def test_a_finding_that_vlbench_cannot_show_is_missing():
    judged = judge(
        Finding("It sings.", "", "", needs="a microphone"), Evidence({}, catalog(), Path())
    )
    assert (judged.verdict, judged.compared, judged.lacks) == ("missing", (), [])


def test_a_model_without_a_row_makes_a_finding_missing(tmp_path):
    judged = found(tmp_path, A_OVER_B, result("a", wald(0.9, 0.01)))
    assert (judged.verdict, judged.compared) == ("missing", ())
    assert judged.lacks == [Lack("b", "t", "no row")]


LACKING = [
    ("model: a, each: {at: [{trial: 2}]}, within: [0, 1]", "no score accuracy at shots 5, trial 2"),
    ("model: a, greater: [{}, {floor: chance}]", "no chance beside its accuracy"),
    ("model: a, greater: [{}, {floor: shuffled}]", "no shuffled beside its accuracy"),
]


@pytest.mark.parametrize(("entry", "why"), LACKING)
def test_a_score_or_floor_that_a_row_lacks_makes_a_finding_missing(tmp_path, entry, why):
    judged = found(tmp_path, entry, result("a", wald(0.9, 0.01)))
    assert judged.verdict == "missing"
    assert judged.lacks == [Lack("a", "t", why)]


def test_rows_that_may_not_be_compared_make_a_finding_missing(tmp_path):
    rows = [result(m, wald(0.9, 0.01), comparable=m) for m in "ab"]
    judged = found(tmp_path, A_OVER_B, *rows)
    assert judged.verdict == "missing"
    assert judged.lacks == [Lack("b", "t", "not comparable with a's row")]


@pytest.mark.parametrize("key", ["value", "stderr"])
def test_what_is_no_number_never_reaches_a_finding(key):
    with pytest.raises(ValueError, match=r"accuracy at .* is not finite"):
        score(**{key: math.nan})


def test_items_tell_apart_what_scores_alone_do_not(tmp_path):
    # 60 of 100 against 50: nowhere is the second right where the first is wrong.
    credit = {"a": [1] * 60 + [0] * 40, "b": [1] * 50 + [0] * 50}
    paired = found(tmp_path, A_OVER_B, *(measured(tmp_path, m, c) for m, c in credit.items()))
    bare = [result(m, wald(sum(c) / 100, 0.05)) for m, c in credit.items()]
    unpaired = found(tmp_path, A_OVER_B, *bare)
    assert (paired.verdict, paired.compared[0].how) == ("supported", "paired")
    assert (unpaired.verdict, unpaired.compared[0].how) == ("undecided", "unpaired")


def test_items_that_cannot_be_joined_are_told_and_scores_compared(tmp_path):
    rows = [measured(tmp_path, m, [1, 0] * n) for m, n in (("a", 20), ("b", 10))]
    (compared,) = found(tmp_path, A_OVER_B, *rows).compared
    assert compared.how == "unpaired (a has the item '20.png', but b does not)"


RANDOM = {"provenance": {"weights": "random:1", "adapter": "sha256:2"}}
OF_A_RUN = {"provenance": {"task_params": {"trials": 3}}}


def test_a_task_has_its_board_and_a_group_its_summary(tmp_path):
    write(tmp_path, board(task="t"))
    write(tmp_path / "summaries", board(task="g"))
    found = read_boards(tmp_path, [task(), task("g", group=["t"]), task("u")])
    assert {name: one and one.task for name, one in found.items()} == {
        "t": "t",
        "g": "g",
        "u": None,
    }


def test_a_complete_row_of_trained_weights_counts():
    row = result("m", score())
    assert counted_row(board(row), task(), "m") is row


NOT_COUNTED = [
    ([], "no row"),
    ([result("m", status="skipped", reason="it has no eyes")], "skipped: it has no eyes"),
    ([result("m", status="failed", reason="it broke")], "failed: it broke"),
    ([result("m", score(), counts=counts(9, 10))], "a row of incomplete data"),
    ([result("m", score(), **RANDOM)], "a row of random weights"),
    ([result("m", score(), **OF_A_RUN)], "a row of other parameters than the task's: trials"),
    (
        [result("m", score()), result("m", score(), comparable="b")],
        "2 rows, and it is unknown which to use",
    ),
]


@pytest.mark.parametrize(("rows", "why"), NOT_COUNTED)
def test_a_row_that_does_not_count_is_told_with_the_reason(rows, why):
    assert counted_row(board(*rows), task(), "m") == Lack("m", "t", why)


def test_a_task_without_a_board_has_no_row():
    assert counted_row(None, task(), "m") == Lack("m", "t", "no board")


def test_a_board_of_another_version_does_not_count():
    why = "the board is of version 1, the task of version 2"
    assert counted_row(board(result("m", score())), task(version=2), "m") == Lack("m", "t", why)


def test_a_summary_has_the_version_of_its_tasks():
    row = result("m", score())
    assert counted_row(board(row, version=3), task(group=["u"]), "m") is row


@pytest.fixture
def rows(tmp_path):
    credit = np.random.default_rng(0).random((2, 400)) < [[0.8], [0.7]]
    return {("t", m): measured(tmp_path, m, c) for m, c in zip("ab", credit, strict=True)}


def paired(folder, entry, rows):
    (comparison,) = finding(folder, entry).comparisons
    return pair(comparison, rows, Evidence({}, catalog(), folder))


def test_the_interval_is_near_that_of_the_mean_of_paired_differences(tmp_path, rows):
    a, b = (np.random.default_rng(0).random((2, 400)) < [[0.8], [0.7]]).astype(float)
    centre, half = (a - b).mean(), 1.96 * (a - b).std(ddof=1) / 400**0.5
    low, high = paired(tmp_path, A_OVER_B, rows).ci95
    assert (low, high) == pytest.approx((centre - half, centre + half), abs=0.01)


NOT_PAIRED = [
    "model: a, within: [0, 1]",
    "model: a, greater: [{}, {floor: chance}]",
    "greater: [{model: [a, b]}, {model: b}]",
    "model: a, greater: [{}, {at: {shots: 1}}]",
    "model: a, greater: [{}, {task: u}]",
]


@pytest.mark.parametrize("entry", NOT_PAIRED)
def test_other_comparisons_are_not_paired(tmp_path, rows, entry):
    assert paired(tmp_path, entry, rows) == Pairing()


def test_a_row_without_items_is_not_paired(tmp_path, rows):
    rows["t", "b"] = result("b", score())
    assert paired(tmp_path, A_OVER_B, rows) == Pairing()


def test_items_that_changed_since_their_row_was_written_are_told(tmp_path, rows):
    (tmp_path / rows["t", "a"].artifacts["items"]["file"]).write_bytes(b"other")
    found = paired(tmp_path, A_OVER_B, rows)
    assert found.ci95 is None
    assert "is not the file that was written with its row;" in found.why
