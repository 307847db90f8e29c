from dataclasses import replace

import numpy as np
import pytest
from canvases import beyond, overlapping
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from PIL import Image

from vlbench.drawing.layouts import grid
from vlbench.drawing.looks import CHANCE, FLOOR, MARKS, Look, looks, style
from vlbench.report.figures.charts import Panel, Point, chart, erase, save, styled

LOOKS = looks(["m", "low", "high", "other"])


def lines(*xs):
    models = {"m": [Point(x, 0.5, None) for x in xs]}
    return chart("title", [Panel(title="", x="x", y="y", models=models)], LOOKS).axes[0]


def dots(**models):
    points = {name: [Point(0, value, None)] for name, value in models.items()}
    return Panel(title="", x="", y="accuracy", models=points)


def legend(figure):
    return [text.get_text() for text in figure.axes[-1].texts]


def levels(axes, line, *, across=True):
    """Return where the lines of chance or of the floors are, along the axis of scores."""
    if not across:
        alike = [own for own in axes.lines if own.get_linestyle() == line["linestyle"]]
        return [list(own.get_ydata()) for own in alike]
    lines = [one for one in axes.collections if isinstance(one, LineCollection)]
    own = [one for one in lines if {*map(to_hex, one.get_color())} == {line["color"]}]
    return [path.vertices[:, 0].tolist() for one in own for path in one.get_paths()]


def drawn_as(axes):
    """Return the looks of the marks of models."""
    styles = {mark: MarkerStyle(mark) for mark in MARKS}
    marks = {k: s.get_path().transformed(s.get_transform()).vertices for k, s in styles.items()}
    return [
        Look(to_hex(colour), mark, hollow=False)
        for one in axes.collections
        if isinstance(one, PathCollection)
        for mark, shape in marks.items()
        for colour in one.get_facecolors()
        if np.array_equal(one.get_paths()[0].vertices, shape)
    ]


SCALES = [
    ((0, 1e-4, 1.0), "symlog"),
    ((1, 31), "symlog"),
    ((1, 5, 10), "linear"),
    ((0, 1, 5), "linear"),
]


@pytest.mark.parametrize(("xs", "scale"), SCALES)
def test_an_axis_that_reaches_far_is_logarithmic_and_one_that_does_not_is_plain(xs, scale):
    assert lines(*xs).get_xscale() == scale


def test_few_numbers_have_a_tick_each():
    assert [label.get_text() for label in lines(1, 5, 10).get_xticklabels()] == ["1", "5", "10"]
    assert len(lines(*range(1, 9)).get_xticks()) != 8


def test_without_a_number_models_are_dots_the_best_of_the_first_panel_on_top():
    first, second = dots(low=0.1, high=0.9), dots(low=0.8, high=0.2, other=0.5)
    axes = chart("title", [first, second], LOOKS).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["other", "low", "high"]


def test_of_very_many_models_the_best_are_drawn_and_the_title_says_so():
    many = {f"m{place:03}": place / 1_000 for place in range(150)}
    first, second = dots(**many), dots(m000=0.5)
    figure = chart("Title", [first, second], looks(many))
    assert figure.get_suptitle() == "Title, the best 60 of 150 models"
    (axes,) = [axes for axes in figure.axes if axes.get_yticklabels()]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == [f"m{place:03}" for place in range(90, 150)]


def test_a_large_figure_has_no_more_pixels_than_browsers_show(tmp_path):
    _, file, _ = save(Figure((600, 1)), tmp_path / "wide")
    with Image.open(file) as image:
        assert max(image.size) <= 32_767


def test_where_lower_is_better_the_lowest_is_on_top_and_the_axis_says_so():
    panel = replace(dots(low=0.1, high=0.9), higher_is_better=False)
    axes = chart("title", [panel], LOOKS).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["high", "low"]
    assert axes.get_xlabel() == "accuracy (%), lower is better"


def test_fractions_are_told_in_percent_from_zero_and_other_units_by_their_name():
    axes = chart("title", [dots(low=0.3, high=0.55)], LOOKS).axes[0]
    ticks = [label.get_text() for label in axes.get_xticklabels()]
    assert (axes.get_xlabel(), ticks[:2]) == ("accuracy (%)", ["0", "10"])
    other = chart("title", [replace(dots(low=0.3), unit="correlation")], LOOKS).axes[0]
    assert other.get_xlabel() == "accuracy (correlation)"


def test_each_dot_has_its_own_chance_and_floor_and_the_legend_names_them():
    points = {
        "low": [Point(0, 0.5, None, 0.1, ("shuffled_words", 0.2))],
        "high": [Point(0, 0.9, None, 0.15, ("majority_class", 0.3))],
    }
    figure = chart("title", [Panel(title="", x="", y="accuracy", models=points)], LOOKS)
    assert levels(figure.axes[0], CHANCE) == [[0.1, 0.1], [0.15, 0.15]]
    assert levels(figure.axes[0], FLOOR) == [[0.2, 0.2], [0.3, 0.3]]
    assert legend(figure) == ["chance", "hardest floor: majority class or shuffled words"]


def test_along_a_number_chance_is_a_line_and_floors_that_differ_are_a_band():
    points = {
        "low": [Point(x, 0.5, None, 0.1, ("shuffled_words", 0.2)) for x in (1, 2)],
        "high": [Point(x, 0.9, None, 0.1, ("shuffled_words", 0.3)) for x in (1, 2)],
    }
    figure = chart("title", [Panel(title="", x="k", y="accuracy", models=points)], LOOKS)
    assert levels(figure.axes[0], CHANCE, across=False) == [[0.1, 0.1]]
    assert levels(figure.axes[0], FLOOR, across=False) == [[0.3, 0.3]]
    floors = "hardest floor: shuffled words"
    assert legend(figure) == ["high", "low", "chance", floors, "their range over the models"]
    low, high = figure.axes[0].collections[-1].get_datalim(figure.axes[0].transData).intervaly
    assert (low, high) == (0.2, 0.3)


def test_without_chance_and_floors_dots_have_no_legend():
    assert chart("title", [dots(low=0.1)], LOOKS).axes[1:] == []


def test_panels_share_an_axis_on_which_all_of_their_scores_and_floors_are_seen():
    first = Panel(title="", x="", y="accuracy", models={"low": [Point(0, 0.3, None)]})
    far = Point(0, 0.5, None, 0.1, ("majority_class", 0.95))
    figure = chart("title", [first, replace(first, models={"low": [far]})], LOOKS)
    assert [axes.get_xlim()[1] > 0.95 for axes in figure.axes[:2]] == [True, True]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()


def test_a_model_looks_the_same_in_figures_of_other_models():
    first = chart("title", [dots(high=0.1, low=0.2)], LOOKS).axes[0]
    along = Panel(title="", x="k", y="accuracy", models={"low": [Point(1, 0.5, None)]})
    second = chart("title", [along], LOOKS).axes[0]
    assert {*drawn_as(first)} == {LOOKS["low"], LOOKS["high"]}
    assert drawn_as(second) == [LOOKS["low"]]


def test_a_hollow_mark_is_white_inside():
    assert style(Look("#000000", "o", hollow=True))["markerfacecolor"] == "white"
    assert style(Look("#000000", "o", hollow=False))["markerfacecolor"] == "#000000"


@pytest.mark.parametrize("kinds", ["k", "", "kkkkk", " " * 7, "k k k", "k" * 10])
def test_nothing_is_cut_or_covered_however_long_the_names_are(kinds):
    names = [f"{i} of the models whose weights have a very long name $x_{i}$" for i in range(5)]
    points = {name: [Point(x, 0.5, None, 0.1, ("a" * 60, 0.2)) for x in (1, 2)] for name in names}
    panels = [
        Panel(title="relation " * 12, x=x.strip(), y="score of words " * 9, models=points)
        for x in kinds or " "
    ]
    figure = chart("the title of a task " * 12, panels, looks(names))
    assert beyond(figure) == [0, 0, 0, 0]
    assert overlapping(figure) == 0


def test_a_figure_is_saved_as_svg_and_png_the_same_twice_and_erased(tmp_path):
    with styled():
        files = [save(grid(1, (1, 1))[0], tmp_path / name) for name in ("a.b", "again")]
    assert [file.name for file in files[0]] == ["a.b.svg", "a.b.png", "a.b.pdf"]
    assert [f.read_bytes() for f in files[0]] == [f.read_bytes() for f in files[1]]
    erase(tmp_path / "a.b")
    erase(tmp_path / "absent")
    assert sorted(tmp_path.iterdir()) == sorted(files[1])
