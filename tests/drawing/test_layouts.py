from itertools import groupby

import pytest
from canvases import beyond
from matplotlib.lines import Line2D

from vlbench.drawing.layouts import (
    entitle,
    fitted,
    grid,
    is_at_left,
    name_points,
    seat_labels,
    seat_legend,
    text_width,
)

LONG = "a name of weights that goes on for far longer than a panel is wide, and then further"


def rows(count):
    """Return how many panels each row of a grid has, told by their height in the figure."""
    figure, axes = grid(count, (2.0, 1.0))
    figure.draw_without_rendering()
    tops = [round(one.get_window_extent().y1) for one in axes]
    return [len(list(same)) for _, same in groupby(tops)]


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (1, [1]),
        (2, [2]),
        (3, [3]),
        (4, [2, 2]),
        (5, [3, 2]),
        (6, [3, 3]),
        (7, [3, 2, 2]),
        (8, [4, 4]),
        (10, [5, 5]),
        (11, [3, 3, 3, 2]),
    ],
)
def test_the_rows_of_a_grid_are_full_or_one_panel_shorter(count, wanted):
    assert rows(count) == wanted


def test_the_panels_of_a_shorter_row_are_wider_so_that_no_corner_is_empty():
    figure, axes = grid(5, (2.0, 1.0))
    figure.draw_without_rendering()
    third, fifth = axes[2].get_window_extent(), axes[4].get_window_extent()
    assert fifth.width > 1.3 * third.width
    assert fifth.x1 == pytest.approx(third.x1, abs=2)
    assert [is_at_left(one) for one in axes] == [True, False, False, True, False]


def seat_lines(figure, labels):
    seat_legend(figure, [Line2D([], []) for _ in labels], labels)


@pytest.mark.parametrize("count", [1, 3, 30])
@pytest.mark.parametrize("label", ["short", LONG, "$x$" * 40])
@pytest.mark.parametrize("seat", [seat_lines, seat_labels])
def test_all_of_a_legend_is_seen(count, label, seat):
    figure, (axes,) = grid(1, (3.0, 2.0))
    seat(figure, [label] * count)
    assert beyond(figure) == [0, 0, 0, 0]
    (legend,) = figure.legends or figure.axes[1:]
    boxes = [text.get_window_extent() for text in legend.texts]
    assert [own.count_overlaps(boxes) for own in boxes] == [1] * count  # itself
    box, panel = legend.get_window_extent(), axes.get_tightbbox()
    assert 0 <= panel.y0 - box.y1 < 0.2 * figure.dpi  # below the panel, and near it
    assert axes.get_window_extent().height > 1.3 * figure.dpi


def test_without_handles_there_is_no_legend():
    figure, _ = grid(1, (3.0, 2.0))
    seat_legend(figure, [], [])
    assert figure.legends == []


@pytest.mark.parametrize("title", [LONG, "W" * 80, "$" * 90])
def test_a_long_title_is_broken_into_lines_that_fit(title):
    figure, _ = grid(1, (3.0, 2.0))
    entitle(figure, title)
    assert figure.get_suptitle().count("\n") >= 1
    assert beyond(figure) == [0, 0, 0, 0]


def test_a_text_that_fits_stays_as_it_is_and_a_dollar_is_no_formula():
    assert fitted("two  words", 5.0, 9) == "two  words"
    assert fitted("$x$", 5.0, 9) == r"\$x\$"
    assert text_width("$x$", 9) > text_width("x", 9)


def test_the_names_of_near_points_do_not_lie_over_each_other_and_stay_inside():
    _, (axes,) = grid(1, (4.0, 3.0))
    places = [(0, 0), (0.01, 0), (1, 1), (1, 0.99)]
    axes.plot(*zip(*places, strict=True), "o")
    name_points(axes, places, ["first name", "second name", "third name", "fourth name"])
    boxes = [text.get_window_extent() for text in axes.texts]
    assert [text.get_text() for text in axes.texts][:2] == ["first name", "second name"]
    assert [box.count_overlaps(boxes) for box in boxes] == [1, 1, 1, 1]  # itself
    assert all(axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max) for box in boxes)
