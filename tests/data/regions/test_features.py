import h5py
import numpy as np
import pytest
from region_files import BOXES, FRACTIONS, VECTORS, butd, lxmert, put_ban, put_tsv

from vlbench.data.regions import image_name, image_number, region_features
from vlbench.errors import DataError

NUMBERED = [
    ("COCO_val2014_000000058350.jpg.npz", "58350"),
    ("coco_train2014_000000058350.npz", "58350"),
    ("flickr30k_000001000092795.npz", "1000092795"),
    ("1000092795", "1000092795"),
    ("flickr30k_images/000123.jpeg", "123"),
    ("000", "0"),
    ("dog_1.png", "dog_1"),
    ("val2014_58350", "val2014_58350"),
]


@pytest.mark.parametrize(("name", "number"), NUMBERED)
def test_data_sets_that_number_their_images_know_them_by_that_number(name, number):
    assert image_number(name) == number


@pytest.mark.parametrize("name", ["dog_1", "dog_1.jpg.npz", "dogs/dog_1.JPG", "a/dog_1.webp.npz"])
def test_anybodys_image_is_known_by_the_whole_name_of_its_file(name):
    assert image_name(name) == "dog_1"
    assert image_name(f"a{name.rsplit('/', 1)[-1]}") == "adog_1"
    assert image_name("001.jpg") != image_name("1.jpg")


def test_an_image_has_no_regions_of_one_whose_name_ends_in_the_same_digits(tmp_path):
    features = region_features(put_tsv(tmp_path, butd("cat_1"), butd("1")))
    assert list(features) == ["cat_1", "1"]
    assert "dog_1" not in features


def test_objects_have_the_first_of_their_words_where_the_vocabulary_lies_beside(tmp_path):
    (tmp_path / "objects_vocab.txt").write_text("tree\nDog, puppy\n")
    file = put_tsv(tmp_path, lxmert("7"), lxmert("8", objects=(2, 0)))
    assert region_features(file)["7"].labels == ["dog", "tree"]
    with pytest.raises(DataError, match=r"line 2: an object is not in objects_vocab\.txt"):
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


@pytest.mark.parametrize(("other", "numbered"), [("a/1.jpg", False), ("01", True)])
def test_two_rows_of_one_image_are_refused_and_both_are_named(tmp_path, other, numbered):
    file = put_tsv(tmp_path, butd("1"), butd(other))
    message = rf"^features\.tsv repeats the regions of image 1: 1 and {other}$"
    with pytest.raises(DataError, match=message):
        region_features(file, numbered=numbered)


def test_a_box_may_be_rounded_beyond_its_image(tmp_path):
    np.savez(tmp_path / "42.npz", x=VECTORS, boxes=BOXES + np.array([-0.5, 0, 10.5, 0]))
    assert region_features(tmp_path).of("42", (40, 30)).boxes[1, 2] == 40.5


def test_regions_of_an_image_of_another_size_are_named_with_both(tmp_path):
    features = region_features(put_tsv(tmp_path, butd()))
    message = r"^features\.tsv, line 1 is for an image of \(40, 30\), but the data set's .* \(16"
    with pytest.raises(DataError, match=message):
        features.of("42", (16, 12))


ODD_REGIONS = [
    {"boxes": np.array([[0, 0, 9, 9], [30, 2, 1, 20]], np.float32)},
    {"boxes": np.array([[0, 0, 9, 9], [1, 2, np.nan, 20]], np.float32)},
    {"vectors": np.array([[0, 1, 2], [3, np.inf, 5]], np.float32)},
]


@pytest.mark.parametrize("odd", ODD_REGIONS)
def test_a_region_that_is_no_box_or_no_vector_is_named_with_its_image(tmp_path, odd):
    features = region_features(put_tsv(tmp_path, lxmert("42", **odd)))
    with pytest.raises(DataError, match=r"features\.tsv, line 1: region 1, box .*finite numbers"):
        features["42"]


SIZE, OUTSIDE = {"image_w": 40, "image_h": 30}, BOXES + np.array([0, 0, 11.5, 0])
LEAVES = r": region 1, box .*41\.5.* is partly outside the image of \(40, 30\)"
SCORES = ": each region needs one finite score$"
REFUSED = [
    ({"boxes": OUTSIDE}, LEAVES),
    (SIZE | {"boxes": OUTSIDE}, LEAVES),
    (SIZE | {"boxes": BOXES[:1]}, ": 1 boxes, but 2 vectors$"),
    (SIZE | {"x": VECTORS[:0], "boxes": BOXES[:0]}, " has no regions$"),
    (SIZE | {"boxes": BOXES[:, :3]}, r": boxes of \[2, 3\], not \[N, 4\]$"),
    (SIZE | {"conf": np.array([0.5])}, SCORES),
    (SIZE | {"conf": np.array([0.5, np.nan])}, SCORES),
]


@pytest.mark.parametrize(("arrays", "message"), REFUSED, ids=range(len(REFUSED)))
def test_regions_that_do_not_fit_each_other_or_their_image_are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "42.npz", **{"x": VECTORS, "boxes": BOXES, **arrays})
    with pytest.raises(DataError, match=rf"^42\.npz{message}"):
        region_features(tmp_path, {"42": (40, 30)})["42"]


def test_what_is_no_features_is_told(tmp_path):
    (tmp_path / "a.txt").write_text("")
    message = r"^a\.txt has another format; .* from \.tsv, \.npz, \.hdf5, \.h5"
    with pytest.raises(DataError, match=message):
        region_features(tmp_path / "a.txt")


def as_tsv(root):
    return put_tsv(root, lxmert("42", boxes=FRACTIONS[:, :4]))


def as_npz(root, name="bbox"):
    np.savez(root / "42.npz", x=VECTORS, image_w=40, image_h=30, **{name: FRACTIONS[:, :4]})
    return root


def as_hdf5(root):
    file = put_ban(root)
    with h5py.File(file, "r+") as opened:
        opened["image_bb"][...] = opened["spatial_features"][:, :4]
        opened["spatial_features"][...] = opened["image_bb"][:][:, [0, 1, 2, 3, 2, 3]] / 20
    return file


@pytest.mark.parametrize("put", [as_tsv, as_npz, as_hdf5])
def test_fractions_under_a_name_of_pixels_are_refused(put, tmp_path):
    with pytest.raises(DataError, match=r": no box is larger than the first pixel of an image"):
        region_features(put(tmp_path))["42"]


def test_fractions_under_a_name_of_fractions_are_scaled(tmp_path):
    assert region_features(as_npz(tmp_path, "norm_bb"))["42"].boxes.numpy() == pytest.approx(BOXES)
