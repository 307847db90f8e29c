import os
import shutil

import numpy as np
import pytest
from PIL import Image

import vlbench.system.digests
from vlbench.data.image_folder import image_folder
from vlbench.data.records import labels, overlaps
from vlbench.errors import DataError
from vlbench.system.digests import path_digest, remembered_in


def put(root, *names):
    for level, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (3, 2), (level, 0, 0)).save(root / name)


def test_rows_are_ordered_by_class_and_name(tmp_path):
    put(tmp_path, "train/dog/a.png", "train/cat/b.png", "train/cat/a.JPG", "test/dog/x.bmp")
    data = image_folder(root=tmp_path)
    assert data.classes == ["cat", "dog"]
    assert labels(data.splits["train"]).tolist() == [0, 0, 1]
    assert [i.getpixel((0, 0))[0] for i in data.splits["train"]["image"]] == [2, 1, 0]
    assert labels(data.splits["test"]).tolist() == [1]


def test_folders_may_be_numbers_of_outputs(tmp_path):
    put(tmp_path, "test/0/a.png", "test/10/b.png", "test/2/c.png")
    data = image_folder(root=tmp_path, class_numbers_are_outputs=True)
    assert (data.classes, data.class_order) == (["0", "10", "2"], "output numbers")
    assert image_folder(root=tmp_path).class_order == ""


def test_without_a_train_folder_there_is_only_a_test_split(tmp_path):
    put(tmp_path, "val/dog/a.png", "val/cat/b.png")
    data = image_folder(root=tmp_path, test="val")
    assert list(data.splits) == ["test"]
    assert data.classes == ["cat", "dog"]


def test_files_of_a_split_that_is_not_wanted_are_not_read(tmp_path):
    put(tmp_path, "train/cat/a.png", "train/dog/a.png", "test/dog/x.png")
    (tmp_path / "train/cat/a.png").write_bytes(b"broken")
    data = image_folder(root=tmp_path, wanted_splits=["test"])
    assert (list(data.splits), data.classes) == (["test"], ["cat", "dog"])
    assert labels(data.splits["test"]).tolist() == [1]


def test_where_no_wanted_split_is_there_all_are_read(tmp_path):
    put(tmp_path, "train/cat/a.png", "test/cat/x.png")
    assert list(image_folder(root=tmp_path, wanted_splits=["val"]).splits) == ["train", "test"]


def paint(file):
    Image.new("RGB", (3, 2), (9, 9, 9)).save(file)
    os.utime(file, (1, 1))


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: paint(folder / "0.png"),
        lambda folder: paint(folder / "new.png"),
        lambda folder: (folder / "0.png").unlink(),
        lambda folder: (folder / "0.png").rename(folder / "2.png"),
        lambda folder: (folder / "2.png").symlink_to(folder / "0.png"),
    ],
    ids=["changed", "added", "removed", "renamed", "linked"],
)
def test_what_is_remembered_hides_no_change(change, tmp_path, monkeypatch):
    monkeypatch.setattr(vlbench.system.digests, "SETTLED_NS", -1)
    put(tmp_path, "test/cat/0.png", "test/cat/1.png")
    with remembered_in(tmp_path / "memory.sqlite"):
        before = image_folder(root=tmp_path).digest()
        change(tmp_path / "test/cat")
        after = image_folder(root=tmp_path).digest()
    assert before != after == image_folder(root=tmp_path).digest()


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    put(tmp_path, "test/cat/a.png")
    (tmp_path / "test/cat/b.png").symlink_to(tmp_path / "gone")
    with pytest.raises(DataError, match=r"^test/cat/b\.png is missing \(1 of 2 images are\)"):
        image_folder(root=tmp_path)


def test_class_folders_may_lie_in_the_root_itself(tmp_path):
    put(tmp_path / "pets", "dog/a.png", "cat/b.png")
    assert image_folder(root=tmp_path / "pets", test=".").classes == ["cat", "dog"]
    assert (
        len(image_folder(root=tmp_path, test="../" + tmp_path.name + "/pets").splits["test"]) == 2
    )


def test_what_is_hidden_or_no_image_is_counted(tmp_path):
    put(tmp_path, "test/cat/a.png", "test/cat/deep/b.png", "test/cat/._a.png", "test/.trash/c.png")
    (tmp_path / "test/cat/Thumbs.db").touch()
    for name in ("list.txt", "outside.jpg", "cat/b.HEIC", "cat/deep/c.heic", "cat/LICENSE"):
        (tmp_path / "test" / name).touch()
    data = image_folder(root=tmp_path)
    assert (data.classes, len(data.splits["test"])) == (["cat"], 2)
    kinds = {".heic": 2, "no suffix": 1, ".db": 1, ".txt": 1, ".jpg": 1}
    kinds |= {"hidden": 1, "in .trash": 1}
    assert data.dropped == {
        f"files ({k}) that are not images of a class": n for k, n in kinds.items()
    }


def test_linked_folders_are_followed(tmp_path):
    put(tmp_path, "test/cat/a.png", "elsewhere/b.png", "elsewhere/deep/c.png")
    (tmp_path / "test/cat/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "test/dog").symlink_to(tmp_path / "elsewhere")
    split = image_folder(root=tmp_path).splits["test"]
    assert labels(split).tolist() == [0, 0, 0, 1, 1]
    assert [image.getpixel((0, 0))[0] for image in split["image"]] == [0, 1, 2, 1, 2]


def test_a_link_to_a_folder_that_holds_it_is_named(tmp_path):
    put(tmp_path, "test/cat/a.png")
    (tmp_path / "test/cat/again").symlink_to(tmp_path / "test")
    message = "'test/cat/again' links to a folder that contains it; remove the link"
    with pytest.raises(DataError, match=message):
        image_folder(root=tmp_path)


def test_without_test_images_halves_of_train_are_offered(tmp_path):
    put(tmp_path, "train/cat/a.jpg", "val/cat/b.jpg")
    with pytest.raises(DataError, match="name the test images 'test', or give the folder 'train'"):
        image_folder(root=tmp_path, halves=0)


def test_two_copies_of_a_folder_are_the_same_data(tmp_path):
    put(tmp_path / "one", "test/cat/a.jpg", "test/dog/b.png")
    put(tmp_path / "two", "test/cat/c.jpg", "test/dog/d.png")
    assert (
        image_folder(root=tmp_path / "one").digest() == image_folder(root=tmp_path / "two").digest()
    )


LACKING = [
    ("train/cat val/cat", ".", r"no folder 'test' .*\['train', 'val'\]; .*`halves: 0`"),
    (
        "train/cat test/cat test/yak",
        ".",
        "'test' has the class 'yak', which the train folder does not have",
    ),
    ("train/cat test/cat", "train/dog", "'train/dog' contains no image"),
    ("", "test", "'test' has no class folders"),
]


@pytest.mark.parametrize(("names", "empty", "message"), LACKING)
def test_what_a_folder_lacks_is_named(tmp_path, names, empty, message):
    put(tmp_path, *(f"{name}/a.png" for name in names.split()))
    (tmp_path / empty).mkdir(exist_ok=True)
    with pytest.raises(DataError, match=message):
        image_folder(root=tmp_path)


def test_the_real_cifar_folder_has_200_and_100_images_a_class(real_data):
    root = real_data / "cifar10_image_folder"
    data = image_folder(root=root)
    assert np.bincount(labels(data.splits["train"])).tolist() == [200] * 10
    assert np.bincount(labels(data.splits["test"])).tolist() == [100] * 10
    first = Image.open(root / "train/automobile/0000.jpg").convert("RGB")
    assert data.splits["train"]["image"][200].tobytes() == first.tobytes()


@pytest.fixture
def flat(tmp_path):
    """A folder of classes of 5, 4 and 2 images, and a file that is none."""
    for name, count in {"a": 5, "b": 4, "c": 2}.items():
        (tmp_path / name).mkdir()
        for i in range(count):
            Image.new("RGB", (4, 4), (i, 0, 0)).save(tmp_path / name / f"{i}.png")
    (tmp_path / "notes.txt").touch()
    return tmp_path


def test_of_a_folder_of_classes_halves_are_drawn(flat):
    data = image_folder(root=flat, halves=0)
    assert data.classes == ["a", "b", "c"]
    ids = {name: rows["image"].examples().ids for name, rows in data.splits.items()}
    assert {name: np.bincount(labels(rows)).tolist() for name, rows in data.splits.items()} == {
        "train": [3, 2, 1],
        "test": [2, 2, 1],
    }
    assert len({*ids["train"], *ids["test"]}) == 11
    for split, names in ids.items():
        assert [name[0] for name in names] == ["abc"[i] for i in labels(data.splits[split])]
    assert data.dropped == {"files (.txt) that are not images of a class": 1}
    (note,) = data.notes
    assert note == "data: half of each class is train and half is test, drawn with seed 0"


def test_a_seed_draws_the_same_halves_and_another_others(flat):
    assert image_folder(root=flat, halves=0).digest() == image_folder(root=flat, halves=0).digest()
    drawn = {image_folder(root=flat, halves=seed).digest() for seed in range(5)}
    assert len(drawn) > 1


def test_copies_of_an_image_are_in_one_half(flat):
    for level, file in enumerate(sorted(flat.rglob("*.png"))):
        Image.new("RGB", (4, 4), (0, level, 0)).save(file)
        shutil.copy(file, file.with_stem(f"{file.stem} again"))
    for seed in range(5):
        data = image_folder(root=flat, halves=seed)
        assert set(overlaps(data).values()) == {0}
        assert np.bincount(labels(data.splits["test"])).min() > 0


def test_a_class_of_copies_of_one_image_has_no_halves(flat):
    (flat / "c" / "1.png").unlink()
    shutil.copy(flat / "c" / "0.png", flat / "c" / "again.png")
    with pytest.raises(DataError, match=r"too few images of c \(1 different\)"):
        image_folder(root=flat, halves=0)


def test_classes_without_an_image_for_each_half_are_all_named(flat):
    for name, i in (("c", 0), ("b", 0), ("b", 1), ("b", 2), ("b", 3)):
        (flat / name / f"{i}.png").unlink()
    with pytest.raises(DataError, match=r"too few images of b \(0\), c \(1\); train"):
        image_folder(root=flat, halves=0)


def test_where_there_are_splits_they_are_as_they_are(tmp_path, flat):
    (tmp_path / "whole").mkdir()
    for name in "abc":
        for split in ("train", "test"):
            shutil.copytree(flat / name, tmp_path / "whole" / split / name)
    data = image_folder(root=tmp_path / "whole", halves=0)
    assert {name: len(rows) for name, rows in data.splits.items()} == {"train": 11, "test": 11}
    assert data.notes == []


def test_two_folders_that_link_to_each_other_are_named(tmp_path):
    put(tmp_path, "test/cat/a.png", "test/dog/b.png")
    (tmp_path / "test/cat/dog").symlink_to(tmp_path / "test/dog")
    (tmp_path / "test/dog/cat").symlink_to(tmp_path / "test/cat")
    message = "(cat/dog/cat|dog/cat/dog)' links to a folder that contains it; remove the link"
    for read in (image_folder, lambda root: path_digest(root / "test")):
        with pytest.raises(DataError, match=message):
            read(root=tmp_path)
