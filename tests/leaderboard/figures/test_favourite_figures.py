import logging
from dataclasses import replace
from io import BytesIO

import PIL.Image
import pyarrow as pa
import pytest
from canvases import beyond
from matplotlib.colors import to_hex
from planted_boards import board, result, score, write

from vlbench.boards import folder_boards, save_artifacts
from vlbench.leaderboard.figures.favourite_figures import (
    COLOURS,
    OTHER,
    draw_favourites,
    word_figure,
)

TAGS = ("NOUN", "VERB", "PRON")


def drawn(output):
    return draw_favourites(output, folder_boards(output))


def words(kind, count=3):
    return [
        {
            "captions": kind,
            "rank": rank,
            "word": f"{kind}{rank}",
            "part_of_speech": TAGS[rank % 3],
            "count": 9 - rank,
            "share": 0.5 / rank,
        }
        for rank in range(1, count + 1)
    ]


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
    files = drawn(planted(tmp_path, unigrams=words("ce"), examples=examples()))
    assert [file.relative_to(tmp_path).as_posix() for file in files] == [
        "figures/t/m.1_words.svg",
        "figures/t/m.1_words.png",
        "figures/t/m.1_captions.png",
    ]
    first = [file.read_bytes() for file in files]
    assert [file.read_bytes() for file in drawn(tmp_path)] == first


def test_each_kind_of_captions_has_a_panel_with_its_words_on_top_of_each_other():
    figure = word_figure("title", [*words("ce"), *reversed(words("favourites"))])
    panels = [axes for axes in figure.axes if axes.axison]
    assert [axes.get_title() for axes in panels] == ["ce", "favourites"]
    labels = [label.get_text() for label in panels[1].get_yticklabels()]
    assert labels == ["favourites1", "favourites2", "favourites3"]
    assert [bar.get_width() for bar in panels[1].patches] == [0.5, 0.25, 0.5 / 3]


def test_words_have_the_colour_of_their_part_of_speech():
    figure = word_figure("title", words("ce"))
    colours = [to_hex(bar.get_facecolor()) for bar in figure.axes[0].patches]
    assert colours == [COLOURS["VERB"], OTHER, COLOURS["NOUN"]]
    assert [text.get_text() for text in figure.legends[0].texts] == ["NOUN", "VERB", "other"]


def test_a_panel_has_ten_words_and_nothing_is_cut():
    rows = [row | {"word": "averylongword" * 2} for row in words("ce", 30)]
    figure = word_figure("long " * 60, rows)
    assert len(figure.axes[0].patches) == 10
    assert beyond(figure) == [0, 0, 0, 0]


def test_the_sheet_shows_twelve_images_at_most(tmp_path):
    (file,) = drawn(planted(tmp_path, examples=examples(30)))
    with PIL.Image.open(file) as sheet:
        assert (sheet.width, sheet.height) == (6 * 200, 2 * (200 + 11 * 15))
        assert sheet.getpixel((100, 100)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ({"unigrams": [{"word": "dog"}]}, "has no column captions, part_of_speech, rank, share"),
        ({"examples": [{"image": b""}]}, "has no column ce, ce_score, favourites"),
        ({"examples": examples(image=b"no image")}, "cannot be decoded as an image"),
    ],
)
def test_a_table_that_cannot_be_drawn_is_named(tmp_path, caplog, tables, said):
    with caplog.at_level(logging.WARNING, "vlbench"):
        assert drawn(planted(tmp_path, **tables)) == []
    assert said in caplog.text


def test_a_table_that_is_not_its_rows_has_no_figure(tmp_path, caplog):
    planted(tmp_path, unigrams=words("ce"))
    save_artifacts(tmp_path, "t", "m.1", {"unigrams": pa.table({"word": ["other"]})})
    with caplog.at_level(logging.WARNING, "vlbench"):
        assert drawn(tmp_path) == []
    assert "is not the file that its row was written with" in caplog.text


def test_a_table_without_rows_has_no_figure(tmp_path):
    empty = pa.Table.from_pylist(words("ce")).slice(0, 0)
    saved = save_artifacts(tmp_path, "t", "m.1", {"unigrams": empty})
    write(tmp_path, board(replace(result("m.1", score()), artifacts=saved)))
    assert drawn(tmp_path) == []


def test_a_picture_of_examples_is_left_to_its_own_probe(tmp_path, caplog):
    (tmp_path / "sheet.png").write_bytes(png("red"))
    saved = save_artifacts(tmp_path, "t", "m", {"examples": tmp_path / "sheet.png"})
    write(tmp_path, board(replace(result("m", score()), artifacts=saved)))
    assert drawn(tmp_path) == []
    assert caplog.messages == []
