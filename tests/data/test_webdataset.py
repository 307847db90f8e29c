"""Tar shards as CLIP_benchmark writes them, and as nobody should."""

import pickle
import shutil
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from tar_shards import pack, put_split

from vlbench.data import webdataset
from vlbench.data.image_folder import image_folder
from vlbench.data.records import labels
from vlbench.data.webdataset import images
from vlbench.digests import remembered_in
from vlbench.errors import DataAbsent, DataError

# One class per shard, and another format in each: in the order of a folder of classes.
FORMS = [("cat", "png"), ("cat", "jpg"), ("dog", "webp"), ("dog", "jpeg")]


def encoded(level, suffix):
    stored = BytesIO()
    form = {"jpg": "JPEG"}.get(suffix, suffix.upper())
    pixels = np.random.default_rng(level).integers(0, 256, (5, 6, 3), np.uint8)
    Image.fromarray(pixels).save(stored, form)
    return stored.getvalue()


def example(i, **changed):
    name, suffix = FORMS[i]
    members = {suffix: encoded(i, suffix), "cls": str(int(name == "dog")).encode()}
    members |= {"txt": f"a {name}\r\nnumber {i}\n".encode()} | changed
    return [(f"s{i:07}.{end}", content) for end, content in members.items() if content is not None]


def shards(**changed):
    """Return two shards of two examples; `changed` are members of the last."""
    return [example(0) + example(1), example(2) + example(3, **changed)]


def load(root, **options):
    return images(root=root, **{"splits": {"test": "test"}, **options})


def test_shards_are_the_same_data_as_their_files(tmp_path):
    for i, (name, suffix) in enumerate(FORMS):
        file = tmp_path / "files" / "test" / name / f"{i}.{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded(i, suffix))
    data = load(put_split(tmp_path / "shards", shards()))
    assert data.digest() == image_folder(root=tmp_path / "files").digest()
    assert data.classes == ["cat", "dog"]
    assert labels(data.splits["test"]).tolist() == [0, 0, 1, 1]
    assert data.splits["test"]["image"].examples().ids[2] == "s0000002"


def test_captions_are_lines(tmp_path):
    (split,) = load(put_split(tmp_path, shards()), label="", caption="txt").splits.values()
    assert list(split["captions"])[2] == ["a dog", "number 2"]
    assert list(split["caption"]) == ["a cat", "a cat", "a dog", "a dog"]
    assert "label" not in split.columns


def test_a_split_lies_in_any_folder(tmp_path):
    put_split(tmp_path, shards(), split="validation")
    put_split(tmp_path, [example(0)], split="train")
    # What macOS leaves on foreign disks.
    (tmp_path / "train" / "._0.tar").write_bytes(b"")
    data = load(tmp_path, splits={"train": "train", "test": "validation"})
    assert {name: len(split) for name, split in data.splits.items()} == {"train": 1, "test": 4}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cls": None}, r"s0000003 has no \.cls"),
        ({"cls": b"2"}, r"s0000003 has the label 2, not in 0\.\.1"),
        ({"png": encoded(0, "png")}, r"s0000003 has 2 images \(jpeg and png\)"),
        ({"jpeg": b"\xff\xd8\xff broken"}, "s0000003 cannot be decoded as an image"),
        ({"jpeg": encoded(3, "jpeg")[:-60]}, "s0000003 cannot be decoded as an image"),
        ({"txt": b" \n"}, "s0000003 has no caption"),
    ],
)
def test_what_is_no_example_is_named_by_shard_and_key(tmp_path, changed, message):
    root = put_split(tmp_path, shards(**changed))
    with pytest.raises(DataError, match=rf"^test/1\.tar: {message}"):
        load(root, caption="txt")


def test_a_key_in_two_shards_is_named_with_both(tmp_path):
    root = put_split(tmp_path, [example(0), example(1), example(0)])
    message = r"^test/2\.tar: the key s0000000 is in test/0\.tar, too"
    with pytest.raises(DataError, match=message):
        load(root)


def test_an_example_split_over_two_shards_lacks_its_label(tmp_path):
    (image, label, _), rest = example(0), example(1)
    with pytest.raises(DataError, match=r"^test/0\.tar: s0000000 has no \.cls"):
        load(put_split(tmp_path, [[*rest, image], [label]]))


@pytest.mark.parametrize(
    ("count", "message"),
    [
        ("3", r"^test/2\.tar is absent; test/nshards\.txt says 3 shards"),
        ("999999999", r"^test/2\.tar is absent"),
        ("1", r"^test/1\.tar is one more than test/nshards\.txt says \(1 shards\)"),
        ("0", r"^test/nshards\.txt: '0' is no number of shards"),
        ("two", r"^test/nshards\.txt: 'two' is no number of shards"),
    ],
)
def test_shards_are_as_many_as_they_are_said_to_be(tmp_path, count, message):
    root = put_split(tmp_path, shards())
    (root / "test/nshards.txt").write_text(count)
    with pytest.raises(DataError, match=message):
        load(root)


def test_what_lies_beside_the_shards_is_named_where_it_is_absent(tmp_path):
    with pytest.raises(DataAbsent, match=r"tar shards test is absent; .* put it at .*test/0\.tar"):
        load(tmp_path)
    root = put_split(tmp_path, shards())
    (root / "test/nshards.txt").unlink()
    with pytest.raises(DataError, match=r"^test/nshards\.txt is absent: it says how many shards"):
        load(root)
    (root / "classnames.txt").unlink()
    with pytest.raises(DataAbsent, match=r"^classnames\.txt, one class a line is absent"):
        load(root)


def test_a_blank_class_is_named(tmp_path):
    with pytest.raises(DataError, match=r"^classnames\.txt, line 2, is no name of a class"):
        load(put_split(tmp_path, shards(), names=["cat", " ", "dog"]))


def test_a_shard_is_read_once_until_it_changes(tmp_path, monkeypatch):
    root, read = put_split(tmp_path / "shards", shards()), []
    original = webdataset.packed_examples

    def counted(path, *rest):
        read.append(path.name)
        return original(path, *rest)

    monkeypatch.setattr(webdataset, "packed_examples", counted)
    monkeypatch.setattr("vlbench.digests.SETTLED_NS", -1)
    with remembered_in(tmp_path / "digests.sqlite"):
        first = load(root).digest()
        assert load(root).digest() == first
        pack(root / "test/1.tar", example(2))
        assert len(load(root).splits["test"]) == 3
        load(root, caption="txt")
    assert read == ["0.tar", "1.tar", "1.tar", "0.tar", "1.tar"]


def test_images_travel_to_other_processes(tmp_path):
    column = load(put_split(tmp_path, shards())).splits["test"]["image"]
    assert pickle.loads(pickle.dumps(column))[1].size == (6, 5)  # noqa: S301 - its own


def test_a_shard_that_is_gone_is_named_with_the_key(tmp_path):
    column = load(put_split(tmp_path, shards())).splits["test"]["image"]
    shutil.rmtree(tmp_path / "test")
    with pytest.raises(DataError, match=r"^test/0\.tar: s0000001 cannot be read \(No such file"):
        column[1]
