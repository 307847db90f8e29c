import numpy as np
import pytest
from region_files import BOXES, VECTORS, butd, lxmert, put_tsv

from vlbench.data.regions import image_id, region_features
from vlbench.errors import DataError


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("COCO_val2014_000000058350.jpg.npz", "58350"),
        ("1000092795", "1000092795"),
        ("flickr30k_images/000123.jpeg", "123"),
        ("000", "0"),
        ("a-b.png", "a-b"),
    ],
)
def test_an_image_is_known_by_the_number_that_ends_its_name(name, number):
    assert image_id(name) == number


def test_objects_have_words_where_the_vocabulary_lies_beside(tmp_path):
    (tmp_path / "objects_vocab.txt").write_text("tree\ndog,puppy\n")
    file = put_tsv(tmp_path, lxmert("7"), lxmert("8", objects=(2, 0)))
    assert region_features(file)["7"].labels == ["dog,puppy", "tree"]
    with pytest.raises(DataError, match=r"line 2: an object that objects_vocab\.txt lacks"):
        region_features(file)["8"]


def test_the_index_reads_no_features_and_a_folder_joins_its_files(tmp_path):
    put_tsv(tmp_path, butd("1"))
    np.savez(tmp_path / "2.npz", wrong=1)
    features = region_features(tmp_path)
    assert list(features) == ["2", "1"]
    assert len(features) == 2
    assert "2" in features
    assert "3" not in features
    with pytest.raises(KeyError):
        features["3"]


def test_features_are_known_by_what_they_hold(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    one = region_features(put_tsv(tmp_path / "a", butd()))
    assert region_features(put_tsv(tmp_path / "b", butd())).key == one.key
    assert region_features(put_tsv(tmp_path / "c", butd("8"))).key != one.key


def test_two_rows_of_one_image_are_refused_whatever_its_name(tmp_path):
    file = put_tsv(tmp_path, butd("1"), butd("01"))
    with pytest.raises(DataError, match=r"^features\.tsv repeats the regions of image 01"):
        region_features(file)


@pytest.mark.parametrize(
    "odd",
    [
        {"boxes": np.array([[0, 0, 9, 9], [30, 2, 1, 20]], np.float32)},
        {"boxes": np.array([[0, 0, 9, 9], [1, 2, np.nan, 20]], np.float32)},
        {"vectors": np.array([[0, 1, 2], [3, np.inf, 5]], np.float32)},
    ],
)
def test_a_region_that_is_no_box_or_no_vector_is_named_with_its_image(tmp_path, odd):
    features = region_features(put_tsv(tmp_path, lxmert(**odd)))
    with pytest.raises(DataError, match=r"features\.tsv, line 1: region 1, box .*finite numbers"):
        features["42"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": VECTORS, "boxes": BOXES[:1]}, r"^42\.npz: 1 boxes, but 2 vectors$"),
        ({"x": VECTORS[:0], "boxes": BOXES[:0]}, r"^42\.npz has no regions$"),
        ({"x": VECTORS, "boxes": BOXES[:, :3]}, r"^42\.npz: boxes of \[2, 3\], not \[N, 4\]$"),
        (
            {"x": VECTORS, "boxes": BOXES, "conf": np.array([0.5])},
            r"^42\.npz: not one finite score per region$",
        ),
        (
            {"x": VECTORS, "boxes": BOXES, "conf": np.array([0.5, np.nan])},
            r"^42\.npz: not one finite score per region$",
        ),
    ],
)
def test_regions_that_do_not_fit_each_other_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "42.npz", **arrays, image_w=40, image_h=30)
    with pytest.raises(DataError, match=message):
        region_features(tmp_path)["42"]


def test_what_is_no_features_is_told(tmp_path):
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(
        DataError, match=r"^a\.txt has another format; .* from \.tsv, \.npz, \.hdf5, \.h5"
    ):
        region_features(tmp_path / "a.txt")
