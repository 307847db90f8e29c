import re
from itertools import pairwise
from pathlib import Path

import pytest
from planted_boards import board, result, score

from vlbench.drawing.looks import COLOURS, MARKS
from vlbench.leaderboard.page import figures
from vlbench.leaderboard.page.figures import BOTTOM, MOST_MODELS, TOP, figure_of_board


def shots(*values, **rest):
    return [score(v, at={"shots": s}, **rest) for s, v in zip((1, 5, 10), values, strict=True)]


def test_a_score_along_a_number_is_drawn_as_a_line():
    figure = figure_of_board(board(result("a", *shots(0.0, 0.5, 1.0))), ["a"], ["a"])
    (chart,) = figure.charts
    ys = [float(place.split()[1]) for place in chart.curves[0].line[1:].split("L")]
    assert ys == pytest.approx([BOTTOM, (BOTTOM + TOP) / 2, TOP])
    assert [label for _, label in chart.x_ticks] == ["1", "5", "10"]


def test_chance_and_intervals_are_drawn():
    rows = result("a", *shots(0.0, 0.5, 1.0, chance=0.5, ci95=(0.0, 1.0)))
    (chart,) = figure_of_board(board(rows), ["a"], ["a"]).charts
    assert chart.chance.count("L") == 2
    assert chart.curves[0].intervals.count(f"{BOTTOM:.1f}V{TOP:.1f}") == 3


def test_a_single_score_has_no_figure_beside_its_bar():
    assert figure_of_board(board(result("a", score())), ["a"], ["a"]) is None


def test_a_model_has_the_same_colour_and_mark_on_every_board():
    names = ["a", "b", "c"]
    rows = [result(name, *shots(0.1, 0.2, 0.3)) for name in names]
    both = figure_of_board(board(*rows), ["c", "a"], names).legend
    alone = figure_of_board(board(rows[2]), ["c"], names).legend
    assert alone == [both[0]]


def test_many_models_are_cut_to_the_best_and_the_rest_is_counted():
    names = [f"m{i}" for i in range(MOST_MODELS + 3)]
    figure = figure_of_board(
        board(*(result(n, *shots(0.1, 0.2, 0.3)) for n in names)), names, names
    )
    assert (len(figure.charts[0].curves), figure.left_out) == (MOST_MODELS, 3)


def test_numbers_far_apart_are_spread_by_their_logarithms():
    scores = [score(0.5, at={"shots": x}) for x in (0.0, 0.01, 0.1, 1.0)]
    (chart,) = figure_of_board(board(result("a", *scores)), ["a"], ["a"]).charts
    places = [float(place.split()[0]) for place in chart.curves[0].line[1:].split("L")]
    steps = [b - a for a, b in pairwise(places)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)


def test_negative_scores_are_inside_the_panel():
    rows = result("a", *shots(-0.5, 0.0, 0.25, unit="correlation"))
    (chart,) = figure_of_board(board(rows), ["a"], ["a"]).charts
    assert [label for _, label in chart.y_ticks] == ["-0.5", "0", "0.5", "1"]


def test_the_colours_of_the_page_are_those_of_the_figures():
    css = (Path(figures.__file__).parent / "page.css").read_text()
    light = css[: css.index("prefers-color-scheme")]
    named = [re.search(rf"--c{i}: (#\w+);", light).group(1) for i in range(len(COLOURS))]
    assert [one if len(one) == 7 else "#" + "".join(d * 2 for d in one[1:]) for one in named] == [
        *COLOURS
    ]
    assert set(MARKS) == set(figures.MARKS)
