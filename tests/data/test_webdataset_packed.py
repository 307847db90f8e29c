import hashlib

import pytest
from foil_files import image_bytes
from PIL import Image
from tar_shards import info, pack

from vlbench.data import webdataset
from vlbench.data.webdataset import MOST_NUMBER, MOST_TEXT, read_part, read_shard
from vlbench.errors import DataError

WANTED = {"cls": MOST_NUMBER, "txt": MOST_TEXT}


def image(form="PNG", level=0):
    return image_bytes(Image.new("RGB", (4, 3), (level, 0, 0)), form)


def read(tmp_path, members, wanted=WANTED):
    return read_shard(pack(tmp_path / "3.tar", members), "test/3.tar", wanted).examples


def test_members_of_one_key_are_one_example_wherever_they_stand(tmp_path):
    jpeg = image("JPEG")
    members = [("a.jpg", jpeg), ("b.cls", b"1"), ("a.cls", b" 0\n"), ("b.txt", b"a dog\na pet")]
    members += [("b.PNG", image()), ("a.txt", b"a cat"), ("a.json", b"{}")]
    a, b = read(tmp_path, members)
    assert (a.key, a.texts) == ("a", {"cls": " 0\n", "txt": "a cat"})
    assert a.digest == hashlib.sha256(jpeg).hexdigest()
    assert read_part(tmp_path / "3.tar", a.start, a.size, "") == jpeg
    assert (b.key, b.texts) == ("b", {"cls": "1", "txt": "a dog\na pet"})


def test_what_is_not_wanted_is_not_read(tmp_path):
    members = [("a.jpg", image("JPEG")), ("a.cls", b"\xff"), ("note.md", b"")]
    ((key, _, _, _, texts),) = read(tmp_path, members, {})
    assert (key, texts) == ("a", {})


def test_keys_without_an_example_are_counted(tmp_path):
    members = [("a.jpg", image("JPEG")), ("note.md", b""), ("README", b""), ("._a.jpg", b"")]
    shard = read_shard(pack(tmp_path / "3.tar", members), "test/3.tar", {})
    assert ([one.key for one in shard.examples], shard.left_out) == (["a"], 2)


def test_parts_of_an_example_may_have_longer_suffixes(tmp_path):
    members = [("a.jpg", image("JPEG")), ("a.seg.png", image())]
    assert [one.key for one in read(tmp_path, members, {})] == ["a"]


FINE = [("fine.jpg", image("JPEG")), ("fine.cls", b"0"), ("fine.txt", b"fine")]


NO_EXAMPLES = [
    ([("a.png", image()), ("a.txt", b"x")], r"a has no \.cls"),
    ([("a.png", image()), ("a.cls", b"0")], r"a has no \.txt"),
    ([("a.cls", b"0"), ("a.txt", b"x")], "a has 0 images"),
    ([("a.png", image()), ("a.jpg", image("JPEG"))], r"a has 2 images \(png and jpg\)"),
    ([("a.png", image()), ("a.png", image())], r"a\.png occurs twice"),
    ([("a.png", image()), ("a.cls", b"1" * 99)], r"a\.cls contains 99 bytes; at most 64 are read"),
    ([("a.png", image()), ("a.cls", b"0"), ("a.txt", b"\xff")], r"a\.txt is not UTF-8: byte 0"),
    ([("a.png", image()[:-30])], "a cannot be decoded as an image"),
    ([("a.png", b"nothing")], "a cannot be decoded as an image"),
    ([("a.jpg", image("JPEG")[:9])], "a cannot be decoded as an image"),
    ([("a.webp", b"RIFF")], "a cannot be decoded as an image"),
    ([info("a.jpg", type=b"2", linkname="/x")], r"'a\.jpg' is not a plain file"),
    # Its key would be another image's.
    ([(f"img.000{i}.png", b"") for i in (1, 2)], r"img\.0001\.png: a key ends at the first dot"),
]


@pytest.mark.parametrize(("members", "message"), NO_EXAMPLES)
def test_what_is_no_example_is_named_by_shard_and_key(tmp_path, members, message):
    with pytest.raises(DataError, match=rf"^test/3\.tar: {message}"):
        read(tmp_path, [*FINE, *members])


def test_an_image_of_a_gigantic_member_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(webdataset, "MOST_IMAGE", 20)
    with pytest.raises(DataError, match=r"test/3\.tar: a contains \d+ bytes; at most 20 are read"):
        read(tmp_path, [("a.png", image())])


def test_a_shard_that_became_shorter_or_vanished_is_named(tmp_path):
    (tmp_path / "3.tar").write_bytes(b"abc")
    assert read_part(tmp_path / "3.tar", 1, 2, "test/3.tar: a") == b"bc"
    with pytest.raises(DataError, match=r"^test/3\.tar: a cannot be read: the shard has become"):
        read_part(tmp_path / "3.tar", 1, 3, "test/3.tar: a")
    with pytest.raises(DataError, match=r"^test/3\.tar: a cannot be read \(No such file"):
        read_part(tmp_path / "4.tar", 1, 3, "test/3.tar: a")
