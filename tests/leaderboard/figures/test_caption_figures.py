import re
from dataclasses import replace

import pytest
from canvases import beyond
from planted_boards import board, counts, result, score, write

from vlbench.boards import folder_boards
from vlbench.leaderboard.building import build
from vlbench.leaderboard.figures.caption_figures import draw_match_scores, match_figure

TEMPLATES = ("uniter", "rosita", "vilbert", "clip", "lxmert")


def replaced(*values):
    names = ("none", "nouns", "others")
    return [
        score(v, "match_score", at={"replaced": n}, ci95=(v - 0.1, v + 0.1))
        for n, v in zip(names, values, strict=True)
    ]


def counted(start):
    return [
        score(
            start + k / 10, "match_score", at={"k": k, "template": t, "nouns": n}, ci95=(0.0, 1.0)
        )
        for t in TEMPLATES
        for n in ("true", "absent")
        for k in (2, 3, 4)
    ]


def rows(make, *names):
    return [result(name, *make) for name in names]


def test_each_model_has_a_panel_of_bars_with_intervals():
    figure = match_figure(board(*rows(replaced(0.7, 0.2, 0.6), "one", "two")))
    assert [axes.get_title() for axes in figure.axes] == ["one", "two"]
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights == [0.7, 0.6, 0.2]
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == ["caption", "other words\nreplaced", "nouns\nreplaced"]
    (low, high), *_ = figure.axes[0].collections[0].get_segments()
    assert (low[1], high[1]) == pytest.approx((0.6, 0.8))


def test_each_model_has_lines_of_templates_and_kinds_of_nouns_along_their_number():
    figure = match_figure(board(*rows(counted(0.1), "one")))
    (axes,) = figure.axes
    drawn = [line for line in axes.lines if len(line.get_xdata()) == 3 and line.get_label()]
    solid = [line for line in drawn if line.get_linestyle() == "-"]
    dashed = [line for line in drawn if line.get_linestyle() == "--"]
    assert (len(solid), len(dashed)) == (5, 5)
    assert list(solid[0].get_xdata()) == [2, 3, 4]
    assert list(solid[0].get_ydata()) == pytest.approx([0.3, 0.4, 0.5])
    told = [text.get_text() for text in figure.legends[0].texts]
    assert told[0] == "template of uniter"
    assert told[5:] == ["nouns of the references", "added nouns of none"]


@pytest.mark.parametrize("make", [replaced(0.7, 0.2, 0.6), counted(0.1)])
@pytest.mark.parametrize("count", [1, 4])
def test_nothing_of_a_figure_is_cut(make, count):
    names = ["a very long name of a model, " * 3 + str(i) for i in range(count)]
    figure = match_figure(board(*rows(make, *names), task="noun_count_" + "long_" * 30))
    assert beyond(figure) == [0, 0, 0, 0]


def test_other_boards_and_rows_that_are_not_publishable_have_no_figure():
    assert match_figure(board(result("m", score(0.1)))) is None
    partial = replace(rows(replaced(0.7, 0.2, 0.6), "one")[0], counts=counts(100, 101))
    assert match_figure(board(partial)) is None
    bare = score(0.1, "match_score", at={"template": "none"})
    assert match_figure(board(result("m", bare))) is None


def test_figures_are_written_the_same_twice_and_removed_without_rows(tmp_path):
    write(tmp_path, board(*rows(replaced(0.7, 0.2, 0.6), "one")))
    files = draw_match_scores(tmp_path, folder_boards(tmp_path))
    assert [file.name for file in files] == ["t_match_scores.svg", "t_match_scores.png"]
    first = [file.read_bytes() for file in files]
    assert [
        file.read_bytes() for file in draw_match_scores(tmp_path, folder_boards(tmp_path))
    ] == first
    write(tmp_path, board())
    assert draw_match_scores(tmp_path, folder_boards(tmp_path)) == []
    assert not any(file.exists() for file in files)


def test_leaderboard_build_draws_them(tmp_path):
    from vlbench.catalog.catalog import load_catalog

    write(tmp_path, board(*rows(counted(0.1), "one")))
    names = [file.name for file in build(tmp_path, load_catalog())]
    assert "t_match_scores.svg" in names
    texts = re.findall(
        r"<text [^>]*>([^<]+)", (tmp_path / "figures/t_match_scores.svg").read_text()
    )
    assert "mean matching score" in texts
