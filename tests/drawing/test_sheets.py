from io import BytesIO

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from vlbench.drawing.sheets import (
    COLUMNS,
    LINE,
    MOST_LINES,
    TILE,
    CaptionedImage,
    figure_png,
    image_sheet,
    png,
    save_figure,
)

RED = CaptionedImage(Image.new("RGB", (4, 2), "red"), ["a.jpg", "said: cat", "right: \x1b dog"])


def test_images_stand_six_in_a_row():
    sheet = image_sheet([RED] * 7)
    assert sheet.size == (COLUMNS * TILE, 2 * (TILE + LINE * 3))
    assert sheet.convert("RGB").getpixel((TILE // 2, 20)) == (255, 0, 0)


def test_a_tile_is_as_high_as_its_longest_lines_up_to_a_limit():
    long = CaptionedImage(RED.image, ["said: " + "a long caption " * 8, "right: a dog"])
    endless = CaptionedImage(RED.image, ["word " * 1000])
    heights = [image_sheet([RED, one]).size[1] - TILE for one in (long, endless)]
    assert heights == [LINE * 6, LINE * MOST_LINES]


def test_the_same_images_give_the_same_bytes():
    assert png(image_sheet([RED])) == png(image_sheet([RED]))


def chart():
    figure = Figure()
    FigureCanvasAgg(figure)
    figure.subplots().imshow(np.arange(100).reshape(10, 10))
    return figure


def test_a_figure_has_a_palette_and_looks_as_matplotlib_draws_it():
    drawn = BytesIO()
    chart().savefig(drawn, format="png")
    found = Image.open(BytesIO(figure_png(chart())))
    assert found.mode == "P"
    wanted = np.asarray(Image.open(drawn).convert("RGB"), int)
    assert abs(np.asarray(found.convert("RGB"), int) - wanted).max() < 16
    assert len(figure_png(chart())) < drawn.tell()


def test_a_figure_is_saved_in_a_file_of_its_own():
    first, second = save_figure(chart()), save_figure(chart())
    assert first != second
    assert first.read_bytes() == second.read_bytes()
    first.unlink()
    second.unlink()
