import logging
from dataclasses import replace

import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from PIL import Image
from planted_boards import board, counts, result, score, write

from vlbench.boards.board import folder_boards, save_artifacts
from vlbench.drawing.looks import looks
from vlbench.errors import OutputError
from vlbench.report.figures.task_figures import draw_task_figures

LOOKS = looks(["a", "b"])

PLAIN = [f"t_plain.{kind}" for kind in ("svg", "png", "pdf")]


def drawn(output, *functions, task="t"):
    """Draw functions as the figures of a task; return the files' names."""
    figures = {task: {one.__name__: one for one in functions}}
    files, _ = draw_task_figures(output, folder_boards(output), figures, LOOKS, {})
    return [file.relative_to(output / "figures").as_posix() for file in files]


def plain(board):
    return Figure() if board.task else None


def with_table(folder, model="a"):
    saved = save_artifacts(folder, "t", model, {"words": pa.table({"word": ["dog"]})})
    return replace(result(model, score()), artifacts=saved)


def test_a_figure_of_a_board_has_the_boards_name_and_its_own(tmp_path):
    assert drawn(write(tmp_path, board(result("a"))), plain) == PLAIN


def test_a_figure_of_a_board_sees_publishable_rows_alone(tmp_path):
    seen = []

    def collect(board):
        seen.extend(row.model for row in board.results)

    partial = replace(result("b", score()), counts=counts(100, 101))
    drawn(write(tmp_path, board(result("a", score()), partial)), collect)
    assert seen == ["a"]


def test_a_figure_of_a_row_is_drawn_for_each_ok_row_with_its_look(tmp_path):
    seen = []

    def plain(row, look):
        seen.append((row.model, look))
        return Figure()

    rows = [result("a"), result("b"), result("c", status="skipped")]
    names = drawn(write(tmp_path, board(*rows)), plain)
    assert names == [f"t/{m}_plain.{kind}" for m in "ab" for kind in ("svg", "png", "pdf")]
    assert seen == [*LOOKS.items()]


def on(name):
    """Return a row of one model on data of a name."""
    made = {"data": f"x:y sha256:{name}", "data_name": name}
    return result("a", score(), comparable=name, provenance=made)


def test_two_data_sets_have_figures_of_their_own(tmp_path):
    titles = []

    def plain(board, title):
        titles.append((title, len(board.results)))
        return Figure()

    files = drawn(write(tmp_path, board(on("cars"), on("dogs"))), plain)
    assert titles == [("T: cars", 1), ("T: dogs", 1)]
    assert {"t_cars_plain.svg", "t_dogs_plain.svg"} < {*files}


def test_a_models_rows_on_two_data_sets_have_figures_of_their_own(tmp_path):
    def plain(row):
        return Figure() if row.model else None

    files = drawn(write(tmp_path, board(on("cars"), on("dogs"), result("b"))), plain)
    wanted = {"t/a_cars_plain.svg", "t/a_dogs_plain.svg", "t/b_plain.svg"}
    assert {file for file in files if file.endswith("svg")} == wanted


def test_several_pictures_have_names_of_their_own_and_an_image_is_a_png(tmp_path):
    def several(row):
        return {"": Figure(), "sheet": Image.new("RGB", (2, 2), row.reason)}

    names = drawn(write(tmp_path, board(result("a", reason="red"))), several)
    assert names == ["t/a.svg", "t/a.png", "t/a.pdf", "t/a_sheet.png"]
    with Image.open(tmp_path / "figures" / "t" / "a_sheet.png") as sheet:
        assert sheet.getpixel((0, 0)) == (255, 0, 0)


def test_a_figure_reads_the_tables_that_a_row_keeps(tmp_path):
    seen = []

    def plain(row, read_table):
        seen.extend(read_table(row, "words", ["word"]))

    drawn(write(tmp_path, board(with_table(tmp_path))), plain)
    assert seen == [{"word": "dog"}]


def test_a_table_that_is_not_its_rows_gives_no_figure_and_is_named(tmp_path, caplog):
    def plain(row, read_table):
        return read_table(row, "words", ["word"]) and Figure()

    write(tmp_path, board(with_table(tmp_path), with_table(tmp_path, "b")))
    save_artifacts(tmp_path, "t", "a", {"words": pa.table({"word": ["cat"]})})
    with caplog.at_level(logging.WARNING, "vlbench"):
        assert drawn(tmp_path, plain) == [f"t/b_plain.{kind}" for kind in ("svg", "png", "pdf")]
    assert "no plain: " in caplog.text
    assert "is not the file that was written with its row;" in caplog.text


def test_a_figure_that_breaks_leaves_the_others(tmp_path, caplog):
    def broken(board):
        return 1 / len(board.task[1:])

    assert drawn(write(tmp_path, board(result("a"))), broken, plain) == PLAIN
    assert "no broken: ZeroDivisionError: division by zero" in caplog.text


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path):
    write(tmp_path, board(result("a")))
    (tmp_path / "figures").write_text("no folder")
    with pytest.raises(OutputError, match="figures"):
        drawn(tmp_path, plain)


def test_nothing_is_drawn_of_a_task_without_a_board(tmp_path):
    assert drawn(write(tmp_path, board(result("a"))), Figure, task="other") == []
