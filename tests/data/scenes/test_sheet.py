import json

import pytest
from PIL import Image

from vlbench.cli import main
from vlbench.data.records import Split
from vlbench.data.scenes.loaders import _columns, drawn_rows
from vlbench.data.scenes.sheet import contact_sheet


@pytest.fixture
def rows(sample):
    return Split(_columns(sample))


def test_a_contact_sheet_shows_as_many_images_as_asked(rows):
    few = rows.select(range(8))
    assert contact_sheet(few, 8).size == (6 * 192, 2 * 246)
    assert contact_sheet(few, 2).size == (2 * 192, 246)
    assert contact_sheet(few, 99).size == (6 * 192, 2 * 246)


def test_a_contact_sheet_shows_an_enlarged_image_and_its_boxes(rows):
    sheet = contact_sheet(rows, 1)
    assert sheet.getpixel((190, 100)) == (255, 255, 255)
    assert (255, 32, 32) in {sheet.getpixel((x, y)) for x in range(188) for y in range(188)}


def test_a_contact_sheet_of_nothing_is_refused(rows):
    with pytest.raises(ValueError, match="a contact sheet of 0 images; it needs 1 or more"):
        contact_sheet(rows, 0)


@pytest.mark.usefixtures("small_world")
def test_show_writes_a_sheet_of_the_world_and_says_what_is_on_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["show", "scenes"]) == 0
    assert "2 train, 1 val, 3 test images of dog, bird" in capsys.readouterr().out
    with Image.open(tmp_path / "scenes.png") as sheet:
        assert sheet.size == (3 * 192, 246)
    assert main(["show", "objects", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["file"], shown["splits"]["train"]) == ("objects.png", 3)


def test_the_images_of_a_sheet_are_those_of_the_world(tmp_path, world):
    for name in ("objects", "scenes"):
        few, whole = drawn_rows(name, "test", 3, tmp_path), world[name].splits["test"]
        assert list(few["caption"]) == list(whole["caption"].select(range(3)))
        assert [i.tobytes() for i in few["image"]] == [
            i.tobytes() for i in whole["image"].select(range(3))
        ]
