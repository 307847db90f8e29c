from PIL import Image

from vlbench.drawing.sheets import COLUMNS, LINE, LINES, TILE, Shown, image_sheet, png

RED = Shown(Image.new("RGB", (4, 2), "red"), ["a.jpg", "said: cat", "right: \x1b dog"])


def test_images_stand_six_in_a_row():
    sheet = image_sheet([RED] * 7)
    assert sheet.size == (COLUMNS * TILE, 2 * (TILE + LINE * LINES))
    assert sheet.convert("RGB").getpixel((TILE // 2, 20)) == (255, 0, 0)


def test_the_same_images_give_the_same_bytes():
    assert png(image_sheet([RED])) == png(image_sheet([RED]))
