import json
import re
from argparse import Namespace
from dataclasses import replace

import pytest
from consoles import rendered
from planted_boards import board, measured, result, score, write

from vlbench.cli import main
from vlbench.commands.leaderboard.compare import answer
from vlbench.errors import UnknownNameError


def asked(output, *models, tasks=None, style=None):
    given = {"models": models, "tasks": tasks, "all_scores": False, "format": style}
    return answer(Namespace(output=output, **given))


@pytest.fixture
def output(tmp_path):
    rows = [measured(tmp_path, m, [1] * n + [0] * (30 - n)) for m, n in (("a", 30), ("b", 20))]
    return write(tmp_path, board(*rows))


def test_a_comparison_is_one_line_of_all_it_takes_to_judge_it(output):
    found = asked(output, "a", "b")
    line = next(one for one in rendered(*found.shown).splitlines() if one.startswith(" t: "))
    cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
    assert cells[:4] == ["t: accuracy (shots 5)", "100.0 %", "66.7 %", "+33.3"]
    # McNemar's mid-p of 10 wins is 1 / 2**10.
    assert cells[5:] == ["<0.001 (<0.001)", "10, 0, 20", "30"]
    assert (found.problems, found.code) == ([], 0)


def test_how_large_a_difference_would_have_been_found_stands_below_the_table(output):
    text = rendered(*asked(output, "a", "b").shown)
    # 10 of 30 differ: 2.045 + 0.854 standard errors of a mean of zeros and ones, 29 degrees
    (points,) = re.findall(r"detectable with 80 % power at p < 0.05: t (\S+) points", text)
    assert float(points) == pytest.approx(289.9 * (2 / 9 / 29) ** 0.5, abs=0.05)


def test_of_equal_models_a_difference_is_detectable_all_the_same(tmp_path):
    rows = [measured(tmp_path, m, [1] * 30) for m in "ab"]
    assert "detectable with 80 %" in rendered(*asked(write(tmp_path, board(*rows)), "a", "b").shown)


@pytest.mark.parametrize("style", [None, "md", "tex"])
def test_the_notes_of_the_rows_stand_below_the_table(tmp_path, style):
    a, b, c = (
        measured(tmp_path, m, [1] * n + [0] * (30 - n))
        for m, n in zip("abc", (9, 8, 7), strict=True)
    )
    noted = [replace(a, notes=["3 test images are also in train"]), b, replace(c, notes=["other"])]
    text = rendered(*asked(write(tmp_path, board(*noted)), "a", "b", style=style).shown)
    assert "note: 3 test images are also in train (a on t)" in text
    assert "other" not in text


FORMATS = [
    ("md", "| t\\: accuracy (shots 5) | 100.0 % | 66.7 % | +33.3 |"),
    ("tex", r"t: accuracy (shots 5) & 100.0 \% & 66.7 \% & +33.3 &"),
    ("csv", 't,accuracy,"{""shots"": 5}",a,b,1.0,0.6666666666666666,0.33333'),
]


@pytest.mark.parametrize(("style", "part"), FORMATS)
def test_the_comparison_comes_in_other_formats(output, style, part):
    (text,) = asked(output, "a", "b", style=style).shown
    assert part in text


def test_json_has_the_numbers(output):
    (text,) = asked(output, "a", "b", style="json").shown
    (line,) = json.loads(text)
    assert (line["a"], line["b"], line["items"]) == ("a", "b", 30)
    assert line["difference"] == pytest.approx(1 / 3)
    assert line["ci95_low"] < 1 / 3 < line["ci95_high"]


def test_where_no_row_keeps_items_nobody_is_sent_to_make_some(tmp_path):
    write(tmp_path, board(result("a", score(0.5)), result("b", score(0.4))))
    (problem,) = asked(tmp_path, "a", "b").problems
    assert problem == "t: no row has items, because the scores are not means over items"


def test_three_models_are_three_tables_below_their_ranks(output):
    rows = [
        measured(output, m, [1] * n + [0] * (30 - n)) for m, n in (("a", 9), ("b", 7), ("c", 2))
    ]
    assert len(asked(write(output, board(*rows)), "a", "b", "c").shown) == 4


def test_a_rank_holds_where_all_pairs_tell_it(output):
    right = {"a": 30, "b": 29, "c": 3, "d": 2}
    rows = [measured(output, m, [1] * n + [0] * (30 - n)) for m, n in right.items()]
    write(output, board(*rows))
    table, *_ = asked(output, "*", tasks="t").shown
    lines = [line.split() for line in rendered(*[table]).splitlines() if "%" in line]
    assert [[one[0], " ".join(one[3:])] for one in lines] == [
        ["a", "1 to 2"], ["b", "1 to 2"], ["c", "3 to 4"], ["d", "3 to 4"],
    ]  # fmt: skip


def test_of_many_models_the_ranks_alone_are_printed(output):
    rows = [measured(output, f"m{n}", [1] * (3 * n) + [0] * (30 - 3 * n)) for n in range(1, 9)]
    shown = asked(write(output, board(*rows)), "m*", tasks="t").shown
    assert len([one for one in shown if not isinstance(one, str)]) == 1
    assert "28 pairs of models: --format csv lists them" in shown


def test_few_clusters_are_said(tmp_path):
    rows = [measured(tmp_path, m, [1, 0, c]) for m, c in (("a", 1), ("b", 0))]
    found = asked(write(tmp_path, board(*rows)), "a", "b")
    assert found.shown[1:] == ["t: 3 clusters, fewer than 20: the interval and p are approximate"]


def test_where_the_board_says_otherwise_it_says_why(tmp_path):
    right = [1.0] * 20
    worse = {"b": 7, "c": 1, "d": 2, "e": 3}
    rows = [measured(tmp_path, m, [0.0] * n + right[n:]) for m, n in {"a": 0, **worse}.items()]
    output = write(tmp_path, board(*rows))
    # McNemar's mid-p of 7 losses is 1 / 2**7 = .0078, which is .078 of 10 pairs of five models.
    (said,) = asked(output, "a", "b").shown[1:]
    assert said.startswith("t: on the board this pair does not differ (p 0.078 after correction")
    assert asked(output, "a", "c").shown[1:] == []


def test_a_model_without_items_is_told_how_to_get_them(tmp_path):
    rows = [result("a b", score()), result("c", score()), measured(tmp_path, "d", [1, 0])]
    found = asked(write(tmp_path, board(*rows)), "a b", "c")
    assert found.problems[0].endswith("vlbench --model 'a b' --tasks t --overwrite")
    assert (found.problems[0].startswith("a b has no items on t: only means"), found.code) == (
        True,
        1,
    )


@pytest.mark.parametrize(("higher", "told"), [(False, "lower is better"), (None, "no direction")])
def test_where_higher_is_not_better_the_score_says_so(tmp_path, higher, told):
    rows = [measured(tmp_path, m, [1, 0, 0], higher_is_better=higher) for m in "ab"]
    text = rendered(*asked(write(tmp_path, board(*rows)), "a", "b").shown)
    assert f"accuracy (shots 5), {told}" in text


def test_the_command_refuses_what_is_not_comparable(tmp_path, capsys):
    rows = [measured(tmp_path, m, [1, 0], comparable=m) for m in "ab"]
    write(tmp_path, board(*rows))
    assert main(["leaderboard", "compare", "a", "b", "--output", str(tmp_path)]) == 2
    assert "t: the rows of a, b are not comparable" in capsys.readouterr().err


def test_a_terminal_of_80_columns_breaks_no_number_and_no_word(tmp_path):
    task = "zero_shot_projection_and_robustness_of_scenes"
    rows = [
        measured(tmp_path, m, [1] * n + [0] * (9999 - n), task=task)
        for m, n in (("a", 9999), ("b", 9))
    ]
    text = rendered(*asked(write(tmp_path, board(*rows, task=task)), "a", "b").shown, width=80)
    words = [
        "projection",
        "robustness",
        "accuracy",
        "+99.9",
        "+100.0",
        "<0.001",
        "9990,",
        "(<0.001)",
    ]
    assert [word for word in words if word not in text.split()] == []


def test_a_task_among_the_models_is_sent_to_its_option(tmp_path):
    write(tmp_path, board(result("a", score()), result("b", score())))
    with pytest.raises(UnknownNameError, match="t is a task; to compare on it, pass --tasks t"):
        asked(tmp_path, "a", "b", "t")
