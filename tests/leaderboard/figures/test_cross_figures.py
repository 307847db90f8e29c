from dataclasses import replace

import pytest
from canvases import beyond
from planted_boards import board, result, score, write

from vlbench.boards import folder_boards
from vlbench.leaderboard.figures.cross_figures import draw_squares, square_figure

UNITS = {"uniter": "probability", "clip": "cosine"}


def cell(scorer, kind, value):
    at = {"scorer": scorer, "captions": kind}
    return score(value, "match_score", at=at, unit=UNITS[scorer])


def gain(scorer, *interval):
    return score(0.0, "match_score_gain", at={"scorer": scorer}, ci95=interval)


def row(model, uniter, clip, **rest):
    """Return a row whose favourites have these scores; captions before have 0.5 and 0.25."""
    found = [cell("uniter", "favourites", uniter), cell("clip", "favourites", clip)]
    before = [cell("uniter", "ce", 0.5), cell("clip", "ce", 0.25)]
    gains = [gain("uniter", 0.1, 0.3), gain("clip", -0.2, 0.1)]
    return result(model, *found, *before, *gains, task="square", **rest)


ROWS = [row("uniter", 0.75, 0.2), row("clip", 0.4, 0.3125)]


def test_the_square_has_a_row_per_model_and_one_of_captions_before():
    axes = square_figure("title", ROWS).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "uniter",
        "clip",
        "captions before",
    ]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "uniter\n(probability)",
        "clip\n(cosine)",
    ]
    assert [text.get_text() for text in axes.texts] == [
        "0.75↑",
        "0.2",
        "0.4↑",
        "0.312",
        "0.5",
        "0.25",
    ]


def test_a_loss_has_an_arrow_down():
    scores = [one for one in ROWS[0].scores if one.metric != "match_score_gain"]
    lost = replace(ROWS[0], scores=[*scores, gain("uniter", -0.3, -0.1)])
    assert square_figure("title", [lost]).axes[0].texts[0].get_text() == "0.75↓"


def test_each_column_is_shaded_from_its_lowest_to_its_highest():
    shades = square_figure("title", ROWS).axes[0].images[0].get_array()
    assert shades[:, 0].tolist() == pytest.approx([1, 0, 0.1 / 0.35])
    assert shades[:, 1].tolist() == pytest.approx([0, 1, 0.05 / 0.1125])


def test_a_scorer_that_a_row_lacks_leaves_its_cell_empty():
    lone = replace(ROWS[1], scores=[s for s in ROWS[1].scores if s.at["scorer"] != "uniter"])
    texts = [text.get_text() for text in square_figure("title", [ROWS[0], lone]).axes[0].texts]
    assert texts == ["0.75↑", "0.2", "0.312", "0.5", "0.25"]


@pytest.mark.parametrize("name", ["m", "a-model-with-a-long-name[weights=elsewhere.pt]"])
def test_nothing_of_the_figure_is_cut(name):
    assert beyond(square_figure("long " * 30, [row(name, 0.1, 0.2)])) == [0, 0, 0, 0]


def test_rows_that_may_be_compared_are_drawn_and_the_same_board_gives_the_same_bytes(tmp_path):
    other = row("other", 0.1, 0.1, comparable="b")
    write(tmp_path, board(*ROWS, other, task="square"))
    files = draw_squares(tmp_path, folder_boards(tmp_path))
    names = [file.relative_to(tmp_path).as_posix() for file in files]
    assert names == ["figures/square_square.svg", "figures/square_square.png"]
    assert b"other" not in files[0].read_bytes()
    assert [file.read_bytes() for file in draw_squares(tmp_path, folder_boards(tmp_path))] == [
        file.read_bytes() for file in files
    ]


def test_a_board_without_such_rows_loses_its_figure(tmp_path):
    write(tmp_path, board(*ROWS, task="square"))
    (svg, _) = draw_squares(tmp_path, folder_boards(tmp_path))
    write(tmp_path, board(result("m", score(), task="square"), task="square"))
    assert draw_squares(tmp_path, folder_boards(tmp_path)) == []
    assert not svg.exists()
