from PIL import Image

from vlbench.leaderboard.item_sheet import COLUMNS, LINE, LINES, TILE, Shown, write_item_sheet

RED = Shown(Image.new("RGB", (4, 2), "red"), ["a.jpg", "said: cat", "right: \x1b dog"])


def test_images_stand_six_in_a_row(tmp_path):
    write_item_sheet([RED] * 7, tmp_path / "sheet.png")
    sheet = Image.open(tmp_path / "sheet.png")
    assert sheet.size == (COLUMNS * TILE, 2 * (TILE + LINE * LINES))
    assert sheet.convert("RGB").getpixel((TILE // 2, 20)) == (255, 0, 0)


def test_the_same_items_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_item_sheet([RED], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
