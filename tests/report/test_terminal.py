import io
from pathlib import Path

import pytest
from consoles import rendered
from planted_boards import PRIMARY, counts, result, score
from planted_boards import board as planted
from rich.console import Console

from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.strict_yaml import Document
from vlbench.report.leaders import Leaders
from vlbench.report.table import table_of
from vlbench.report.terminal import board_tables, score_table


def row(model, *scores, n=4, expected=4, **rest):
    return result(model, *scores, counts=counts(n, expected), **{"comparable": "c1"} | rest)


def board(*rows):
    return planted(*rows, task="few_shot_x", version=3)


def shown(board, spec=None, leaders=None):
    return board_tables(board, leaders or {}, spec)


def scored(*rows, leaders=None):
    return score_table(table_of("t", PRIMARY, rows, leaders))


def order(text, *models):
    return sorted(models, key=text.index)


def test_the_best_is_first():
    rows = [row("low", score(0.2)), row("high", score(0.9)), row("middle", score(0.5))]
    text = rendered(*shown(board(*rows)))
    assert order(text, "low", "middle", "high") == ["high", "middle", "low"]


def test_where_lower_is_better_the_lowest_is_first():
    rows = [row(m, score(v, higher_is_better=False)) for m, v in [("big", 0.9), ("tiny", 0.1)]]
    assert order(rendered(*shown(board(*rows))), "big", "tiny") == ["tiny", "big"]


def test_the_title_says_task_and_version_and_the_column_the_conditions():
    text = rendered(*shown(board(row("m", score()))))
    assert "few_shot_x (version 3)" in text
    assert "accuracy (shots 5)" in text


def test_a_score_of_ties_is_marked():
    tied = result("m", score(0.1), counts={**counts(), "ties": 100})
    assert "10.0 % (mostly ties)" in rendered(*shown(board(tied)))
    few = result("m", score(0.1), counts={**counts(), "ties": 100, "choices": 200})
    assert "ties" not in rendered(*shown(board(few)))


def test_a_score_is_shown_with_all_it_takes_to_judge_it():
    floors = {"pixels": 0.25, "blank": 0.125}
    planted_score = score(0.531, ci95=(0.521, 0.541), chance=0.1, floors=floors, n=10_000)
    text = rendered(scored(row("m", planted_score)))
    line = next(line for line in text.splitlines() if " m " in line)
    assert " ".join(line.split()) == "m 53.1 % 52.1 to 54.1 10,000 10.0 % 25.0 % pixels"


def test_where_lower_is_better_the_lowest_floor_is_hardest_to_beat():
    planted_score = score(0.1, floors={"pixels": 0.25, "blank": 0.125}, higher_is_better=False)
    assert "12.5 % blank" in rendered(scored(row("m", planted_score)))


def test_what_is_not_known_is_a_dash():
    text = rendered(scored(row("m", score())))
    line = next(line for line in text.splitlines() if " m " in line)
    assert line.split() == ["m", "50.0", "%", "-", "100", "-", "-"]


def test_other_metrics_under_the_same_conditions_are_columns():
    rows = [
        row("a", score(), score(0.75, "accuracy_cosine"), score(0.125, "x", at={"shots": 1})),
        row("b", score()),
    ]
    text = rendered(scored(*rows))
    assert ("accuracy cosine" in text, "75.0 %" in text, "12.5 %" in text) == (True, True, False)


def test_a_partial_row_is_marked():
    rows = [row("whole", score()), row("part", score(), n=4, expected=10)]
    lines = rendered(*shown(board(*rows))).splitlines()
    assert [line.split()[0] for line in lines if "(partial)" in line] == ["part"]


def test_rows_that_may_not_be_compared_stand_in_two_tables():
    rows = [row(m, score(), comparable=c) for m, c in zip("abcd", "1122", strict=True)]
    first, second = shown(board(*rows))
    assert "few_shot_x (version 3), on a, b " in rendered(first)
    assert ("c" in rendered(second), "on c, d; not comparable with a, b" in rendered(second)) == (
        True,
    ) * 2
    assert len(shown(board(row("a", score()), row("b", score())))) == 1


def test_rows_without_scores_stand_in_a_table_of_their_own():
    rows = [row("a", score()), row("b", status="skipped", reason="the model has no Detector")]
    scores, reasons = shown(board(*rows))
    assert " b " not in rendered(scores)
    text = rendered(reasons)
    assert "without scores" in text
    assert text.splitlines()[-2].split(maxsplit=2)[:2] == ["b", "skipped"]
    assert "the model has no Detector" in text


def test_a_board_of_failures_is_one_table():
    (table,) = shown(board(row("a", status="failed", reason="why")))
    assert "failed" in rendered(table)


def test_a_board_without_rows_has_no_tables():
    assert shown(board()) == []


def test_what_was_overridden_is_part_of_the_name_that_is_shown():
    rows = [row("clip", score(0.9)), row("clip[weights=random]", score(0.1))]
    assert "clip[weights=random]" in rendered(*shown(board(*rows)))


@pytest.mark.parametrize("reason", ["KeyError: [red] is gone", "unknown [a=b]", "closes [/b]"])
def test_a_reason_is_shown_as_it_is(reason):
    table = shown(board(row("m", status="failed", reason=reason)))
    assert reason in rendered(*table)


def test_a_row_without_the_primary_score_is_shown_all_the_same():
    rows = [row("new", score()), row("old", score(metric="success"), comparable="c0")]
    text = rendered(*shown(board(*rows)))
    assert ("new" in text, "old" in text) == (True, True)


def test_how_models_stand_to_the_leader_is_a_column():
    leaders = Leaders("a", [], {}, {"b": 0.0123})
    lines = rendered(scored(row("a", score(0.9)), row("b", score()), leaders=leaders)).splitlines()
    assert [line.split("-")[-1].strip() for line in lines if " 100 " in line] == [
        "clear leader",
        "behind, p 0.012",
    ]
    untested = leaders._replace(p={})
    assert "leader" not in rendered(scored(row("a", score()), leaders=untested))


def test_a_narrow_terminal_breaks_words_and_loses_none():
    console = Console(width=60, record=True, file=io.StringIO())
    (table,) = shown(board(row("a model", score(), score(metric="accuracy_hungarian"))))
    console.print(table)
    assert "…" not in "".join(console.export_text().split())


CITED = [{"model": "b", "metric": "accuracy", "at": {"shots": 5}, "value": 0.5, "where": "Table 1"}]


def cited(name="few_shot_x"):
    return TaskSpec(name, Path(), Document(Path("a.yaml"), {}, {}), reference=CITED)


def test_a_published_value_stands_beside_ours_with_the_difference():
    rows = [row("a", score(0.9)), row("b", score(0.45, stderr=0.025))]
    lines = rendered(*shown(board(*rows), cited())).splitlines()
    (first,) = [line for line in lines if line.startswith(" b ")]
    assert "50.0 %, Table 1 (ours -5.0 points, -2.0 SE)" in first
    assert "points" not in next(line for line in lines if line.startswith(" a "))


def test_a_score_without_a_standard_error_differs_in_points_alone():
    text = rendered(*shown(board(row("b", score(0.45))), cited()))
    assert "-5.0 points" in text
    assert " SE" not in text


@pytest.mark.parametrize(
    "rest", [{"n": 3}, {"provenance": {"weights": "random:1", "adapter": "sha256:2"}}]
)
def test_a_row_that_may_not_be_published_is_not_held_against_the_paper(rest):
    assert "published" not in rendered(*shown(board(row("b", score(0.45), **rest)), cited()))


def test_a_board_without_a_published_value_has_no_column_for_it():
    assert "published" not in rendered(*shown(board(row("a", score(0.9))), cited()))
    assert "published" not in rendered(*shown(board(row("b", score(0.9)))))
