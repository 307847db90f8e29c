from dataclasses import replace
from io import BytesIO
from itertools import product

import PIL.Image
import pyarrow as pa
import pytest
from canvases import beyond
from matplotlib.colors import to_hex
from planted_boards import board, counts, result, score, write

from vlbench.boards.board import folder_boards, save_artifacts
from vlbench.probes.captioning.figures import (
    OF_SPEECH,
    OTHER,
    captions,
    match_scores,
    square,
    square_figure,
    word_figure,
    words,
)
from vlbench.report.figures.task_figures import draw_task_figures

TEMPLATES = ("uniter", "rosita", "vilbert", "clip", "lxmert")


def replaced(*values):
    names = ("none", "nouns", "others")
    return [
        score(v, "match_score", at={"replaced": n}, ci95=(v - 0.1, v + 0.1))
        for n, v in zip(names, values, strict=True)
    ]


def counted(start):
    conditions = [
        {"k": k, "template": t, "nouns": n}
        for t, n, k in product(TEMPLATES, ("true", "absent"), (2, 3, 4))
    ]
    return [score(start + at["k"] / 10, "match_score", at=at, ci95=(0.0, 1.0)) for at in conditions]


def rows(make, *names):
    return [result(name, *make) for name in names]


def test_each_model_has_a_panel_of_bars_with_intervals():
    figure = match_scores(board(*rows(replaced(0.7, 0.2, 0.6), "one", "two")), "T")
    assert [axes.get_title() for axes in figure.axes] == ["one", "two"]
    heights = [bar.get_height() for bar in figure.axes[0].patches]
    assert heights == [0.7, 0.6, 0.2]
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == ["caption", "other words\nreplaced", "nouns\nreplaced"]
    (low, high), *_ = figure.axes[0].collections[0].get_segments()
    assert (low[1], high[1]) == pytest.approx((0.6, 0.8))


def test_each_model_has_lines_of_templates_and_kinds_of_nouns_along_their_number():
    figure = match_scores(board(*rows(counted(0.1), "one")), "T")
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
    figure = match_scores(board(*rows(make, *names)), "Noun count " + "long " * 30)
    assert beyond(figure) == [0, 0, 0, 0]


def test_other_boards_and_rows_that_are_not_publishable_have_no_figure(tmp_path):
    assert match_scores(board(result("m", score(0.1))), "T") is None
    bare = score(0.1, "match_score", at={"template": "none"})
    assert match_scores(board(result("m", bare)), "T") is None
    partial = replace(rows(replaced(0.7, 0.2, 0.6), "one")[0], counts=counts(100, 101))
    assert drawn(write(tmp_path, board(partial)), match_scores) == []


def drawn(output, *functions, task="t"):
    """Draw functions as the figures of a task; return the files' names."""
    figures = {task: {one.__name__: one for one in functions}}
    files, _ = draw_task_figures(output, folder_boards(output), figures, {"m.1": None}, {})
    return [file.relative_to(output / "figures").as_posix() for file in files]


def read(output, names):
    return [(output / "figures" / name).read_bytes() for name in names]


def test_matching_scores_are_drawn_the_same_twice_and_removed_without_rows(tmp_path):
    output = write(tmp_path, board(*rows(replaced(0.7, 0.2, 0.6), "m.1")))
    names = drawn(output, match_scores)
    assert names == [f"t_match_scores.{kind}" for kind in ("svg", "png", "pdf")]
    first = read(output, names)
    assert b"mean matching score" in first[0]
    drawn(output, match_scores)
    assert read(output, names) == first
    assert drawn(write(output, board()), match_scores) == []
    assert not any((output / "figures" / name).exists() for name in names)


UNITS = {"uniter": "probability", "clip": "cosine"}


def cell(scorer, kind, value):
    at = {"scorer": scorer, "captions": kind}
    return score(value, "match_score", at=at, unit=UNITS[scorer])


def gain(scorer, *interval):
    return score(0.0, "match_score_gain", at={"scorer": scorer}, ci95=interval)


def liked(model, uniter, clip, **rest):
    """Return a row whose favourites have these scores; captions before have 0.5 and 0.25."""
    found = [cell("uniter", "favourites", uniter), cell("clip", "favourites", clip)]
    before = [cell("uniter", "ce", 0.5), cell("clip", "ce", 0.25)]
    gains = [gain("uniter", 0.1, 0.3), gain("clip", -0.2, 0.1)]
    return result(model, *found, *before, *gains, task="square", **rest)


ROWS = [liked("uniter", 0.75, 0.2), liked("clip", 0.4, 0.3125)]


def told(texts):
    return [text.get_text() for text in texts]


def test_the_square_has_a_row_per_model_and_one_of_captions_before():
    axes = square_figure("title", ROWS).axes[0]
    assert told(axes.get_yticklabels()) == ["uniter", "clip", "captions before"]
    assert told(axes.get_xticklabels()) == ["uniter\n(probability)", "clip\n(cosine)"]
    assert told(axes.texts) == ["0.75↑", "0.2", "0.4↑", "0.312", "0.5", "0.25"]


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
    axes = square_figure("title", [ROWS[0], lone]).axes[0]
    assert told(axes.texts) == ["0.75↑", "0.2", "0.312", "0.5", "0.25"]


@pytest.mark.parametrize("name", ["m", "a-model-with-a-long-name[weights=elsewhere.pt]"])
def test_nothing_of_the_figure_is_cut(name):
    assert beyond(square_figure("long " * 30, [liked(name, 0.1, 0.2)])) == [0, 0, 0, 0]


def test_only_rows_that_may_be_compared_are_in_the_square():
    other = liked("other", 0.1, 0.1, comparable="b")
    labels = square(board(*ROWS, other), "T").axes[0].get_yticklabels()
    assert told(labels) == ["uniter", "clip", "captions before"]
    assert square(board(result("m", score())), "T") is None


TAGS = ("NOUN", "VERB", "PRON")


def said(kind, count=3):
    names = ("captions", "rank", "word", "part_of_speech", "count", "share")
    rows = [(kind, i, f"{kind}{i}", TAGS[i % 3], 9 - i, 0.5 / i) for i in range(1, count + 1)]
    return [dict(zip(names, row, strict=True)) for row in rows]


def png(colour):
    content = BytesIO()
    PIL.Image.new("RGB", (64, 64), colour).save(content, "PNG")
    return content.getvalue()


def examples(count=2, **rest):
    told = {"reference": "a dog .", "ce": "a cat", "favourites": "a dog dog"}
    scores = {"reference_score": 0.5, "ce_score": 0.25, "favourites_score": 0.125}
    return [{"image": png("red"), **told, **scores, **rest} for _ in range(count)]


def planted(folder, **tables):
    """Write a board of one row that keeps these tables."""
    found = {name: pa.Table.from_pylist(rows) for name, rows in tables.items()}
    saved = save_artifacts(folder, "t", "m.1", found)
    row = replace(result("m.1", score()), artifacts=saved)
    return write(folder, board(row))


def test_a_row_with_tables_has_a_figure_of_words_and_a_sheet_of_captions(tmp_path):
    output = planted(tmp_path, unigrams=said("ce"), examples=examples())
    names = drawn(output, words, captions)
    of_words = [f"t/m.1_words.{kind}" for kind in ("svg", "png", "pdf")]
    assert names == [*of_words, "t/m.1_captions.png"]
    first = read(output, names)
    drawn(output, words, captions)
    assert read(output, names) == first


def test_each_kind_of_captions_has_a_panel_with_its_words_on_top_of_each_other():
    figure = word_figure("title", [*said("ce"), *reversed(said("favourites"))])
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == ["ce", "favourites"]
    labels = [label.get_text() for label in panels[1].get_yticklabels()]
    assert labels == ["favourites1", "favourites2", "favourites3"]
    assert [bar.get_width() for bar in panels[1].patches] == [0.5, 0.25, 0.5 / 3]


def test_words_have_the_colour_of_their_part_of_speech():
    figure = word_figure("title", said("ce"))
    colours = [to_hex(bar.get_facecolor()) for bar in figure.axes[0].patches]
    assert colours == [OF_SPEECH["VERB"], OTHER, OF_SPEECH["NOUN"]]
    assert [text.get_text() for text in figure.legends[0].texts] == ["NOUN", "VERB", "other"]


def test_a_panel_has_ten_words_and_nothing_is_cut():
    rows = [row | {"word": "averylongword" * 2} for row in said("ce", 30)]
    figure = word_figure("long " * 60, rows)
    assert len(figure.axes[0].patches) == 10
    assert beyond(figure) == [0, 0, 0, 0]


def test_the_sheet_shows_twelve_images_at_most(tmp_path):
    (name,) = drawn(planted(tmp_path, examples=examples(30)), captions)
    with PIL.Image.open(tmp_path / "figures" / name) as sheet:
        assert (sheet.width, sheet.height) == (6 * 200, 2 * (200 + 3 * 15))
        assert sheet.getpixel((100, 100)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"unigrams": [{"word": "dog"}]}, "has no column captions, part_of_speech, rank, share"),
        ({"examples": [{"image": b""}]}, "has no column ce, ce_score, favourites"),
        ({"examples": examples(image=b"no image")}, "cannot be decoded as an image"),
    ],
)
def test_a_table_that_cannot_be_drawn_is_named(tmp_path, caplog, tables, reason):
    assert drawn(planted(tmp_path, **tables), words, captions) == []
    assert reason in caplog.text


def test_a_table_without_rows_has_no_figure(tmp_path):
    empty = pa.Table.from_pylist(said("ce")).slice(0, 0)
    saved = save_artifacts(tmp_path, "t", "m.1", {"unigrams": empty})
    write(tmp_path, board(replace(result("m.1", score()), artifacts=saved)))
    assert drawn(tmp_path, words, captions) == []
