"""What file managers and notebooks keep in a folder is no class and no image of it."""

import numpy as np
import pytest
from foil_files import put_images as put

from vlbench.data.captioned_folder import captioned_folder
from vlbench.data.image_folder import image_folder
from vlbench.data.regions import region_features
from vlbench.data.split_files import parquet_files
from vlbench.run.extraction import of_folder

CACHES = ["@eaDir", "__MACOSX", "$RECYCLE.BIN", ".ipynb_checkpoints", "#recycle"]


def counted(cache, number, what):
    return {f"files (in {cache}) that are not {what}": number}


@pytest.mark.parametrize("cache", CACHES)
def test_a_cache_is_no_class_and_its_files_no_images(cache, tmp_path):
    put(tmp_path, "test/cat/a.png", "test/dog/b.png", f"test/{cache}/cat/a.png")
    put(tmp_path, f"test/cat/{cache}/a.png", f"test/cat/{cache}/deep/b.png")
    data = image_folder(root=tmp_path)
    assert (data.classes, len(data.splits["test"])) == (["cat", "dog"], 2)
    assert data.dropped == counted(cache, 3, "images of a class")


@pytest.mark.parametrize("cache", CACHES)
def test_a_cache_is_no_class_of_halves(cache, tmp_path):
    put(tmp_path, "cat/a.png", "cat/b.png", "dog/c.png", "dog/d.png", f"{cache}/a.png")
    data = image_folder(root=tmp_path, halves=0)
    assert data.classes == ["cat", "dog"]
    assert data.dropped == counted(cache, 1, "images of a class")


@pytest.mark.parametrize("cache", CACHES)
def test_a_cache_has_no_captioned_images(cache, tmp_path):
    put(tmp_path, "a.png", f"{cache}/a.png")
    for folder in (tmp_path, tmp_path / cache):
        (folder / "a.txt").write_text("a cat")
    data = captioned_folder(root=tmp_path)
    assert len(data.splits["test"]) == 1
    assert data.dropped == counted(cache, 2, "images or captions")


def test_features_of_a_folder_are_of_no_cache(tmp_path):
    put(tmp_path, "cat/a.png", "@eaDir/cat/a.png", "cat/@eaDir/a.png")
    assert of_folder(tmp_path).labels == ["cat"]


def test_regions_are_of_no_hidden_file(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.ones((1, 3)), boxes=[[0, 0, 2, 2]], image_w=3, image_h=3)
    (tmp_path / "._a.npz").write_bytes(b"macOS keeps what its own disks have beside a file")
    assert list(region_features(tmp_path)) == ["a"]


def test_a_cache_has_no_parquet_files(tmp_path):
    for name in ("data/train.parquet", "@eaDir/train.parquet"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    assert list(map(str, parquet_files(tmp_path))) == ["data/train.parquet"]


def test_folders_inside_the_folder_of_a_class_are_no_classes_of_features(tmp_path):
    put(tmp_path, "cat/day/a.png", "dog/day/b.png", "dog/night/c.png", "d.png")
    assert of_folder(tmp_path).labels == ["cat", "", "dog", "dog"]


def test_features_of_train_and_test_have_the_classes_of_both(tmp_path):
    put(tmp_path, "train/cat/a.png", "test/cat/day/b.png", "val/dog/c.png")
    assert of_folder(tmp_path).labels == ["cat", "cat", "dog"]


def test_train_may_be_the_folder_of_a_class_of_features(tmp_path):
    put(tmp_path, "bus/a.png", "train/b.png")
    assert of_folder(tmp_path).labels == ["bus", "train"]
