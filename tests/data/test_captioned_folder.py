import pytest
from PIL import Image

from vlbench.data.captioned_folder import captioned_folder
from vlbench.errors import DataError


def put(root, files):
    """Write files by name: a text has its content, an image None."""
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            Image.new("RGB", (3, 2)).save(file)
        else:
            file.write_bytes(content.encode())
    return root


def load(root, files):
    return captioned_folder(root=put(root, files))


def test_each_image_has_the_captions_of_the_text_beside_it(tmp_path):
    files = {"b.png": None, "b.txt": "A dog.", "a.jpg": None, "a.txt": "One\nTwo\n"}
    data = load(tmp_path, files)
    test = data.splits["test"]
    assert set(test.columns) == {"image", "picture", "captions", "caption"}
    assert list(test["captions"]) == [["One", "Two"], ["A dog."]]
    assert list(test["caption"]) == ["One", "A dog."]
    assert test["image"].examples().ids == ["a.jpg", "b.png"]
    assert test["picture"][0].image.size == (3, 2)
    assert not data.dropped


def test_blank_lines_are_no_captions(tmp_path):
    text = "\ufeff\r\n  A cat \r\n\r\nTwo cats\r\n"
    test = load(tmp_path, {"a.png": None, "a.txt": text}).splits["test"]
    assert test["captions"][0] == ["  A cat ", "Two cats"]


def test_subfolders_are_read_and_hidden_files_are_not(tmp_path):
    files = {"x/y/a.png": None, "x/y/a.TXT": "A", "a.b.png": None, "a.b.txt": "B"}
    hidden = {".a.png": None, ".x/b.png": None, ".x/b.txt": "C"}
    data = load(tmp_path, files | hidden)
    assert data.splits["test"]["image"].examples().ids == ["a.b.png", "x/y/a.png"]
    left_out = {"hidden": 1, "in .x": 2}
    assert data.dropped == {
        f"files ({k}) that are not images or captions": n for k, n in left_out.items()
    }


def test_what_has_no_counterpart_is_counted(tmp_path):
    files = {"a.png": None, "a.txt": "A", "b.png": None, "c.png": None, "c.txt": "\n", "d.txt": "D"}
    data = load(tmp_path, files | {"e.heic": "", "LICENSE": ""})
    assert len(data.splits["test"]) == 1
    assert data.dropped == {
        "images without captions": 2,
        "texts without an image": 1,
        "files (.heic) that are not images or captions": 1,
        "files (no suffix) that are not images or captions": 1,
    }


def test_two_images_of_one_name_are_refused_with_both_named(tmp_path):
    with pytest.raises(DataError, match=r"^x/a\.jpg and x/a\.png differ only in their suffix;"):
        load(tmp_path, {"x/a.jpg": None, "x/a.png": None, "x/a.txt": "A"})


def test_a_folder_without_captions_says_how_to_write_them(tmp_path):
    message = r"no image with captions \(1 image, 0 texts\); .* cat\.txt"
    with pytest.raises(DataError, match=message):
        load(tmp_path, {"a.png": None})


def test_a_text_in_another_encoding_is_named(tmp_path):
    put(tmp_path, {"x/a.png": None})
    (tmp_path / "x/a.txt").write_bytes("Café".encode("latin-1"))
    with pytest.raises(DataError, match=r"x/a\.txt is not UTF-8"):
        captioned_folder(root=tmp_path)
