import base64
import pickle
import sys

import h5py
import numpy as np
import pytest
import torch

from vlbench.data.regions import image_id, region_features
from vlbench.errors import DataAbsent, DataError

BOXES = np.array([[0, 0, 9, 9], [1, 2, 30, 20.5]], np.float32)
VECTORS = np.arange(6, dtype=np.float32).reshape(2, 3)


def encode(array, dtype=np.float32):
    return base64.b64encode(np.asarray(array, dtype).tobytes()).decode()


def lxmert(name="COCO_train2014_000000000042", *, vectors=VECTORS, objects=(1, 0), boxes=BOXES):
    numbers = [encode(objects, np.int64), encode([0.5, 0.25])] * 2
    return "\t".join([name, "30", "40", *numbers, "2", encode(boxes), encode(vectors)]) + "\n"


def butd(name="42"):
    return "\t".join([name, "40", "30", "2", encode(BOXES), encode(VECTORS)]) + "\n"


def put_tsv(root, *lines):
    (root / "features.tsv").write_text("".join(lines))
    return root / "features.tsv"


def put_ban(root, *, slots=True, index=None):
    """Images 42, with one region, and 7, with two (or, of a fixed number, two each)."""
    shares = BOXES[:, [0, 1, 2, 3, 2, 3]] / [40, 30, 40, 30, 40, 30]
    columns = {"image_features": VECTORS, "image_bb": BOXES, "spatial_features": shares}
    with h5py.File(root / "val.hdf5", "w") as file:
        for name, rows in columns.items():
            two = np.concatenate([rows[1:], rows]) if slots else np.stack([rows, rows])
            file[name] = two.astype(np.float32)
        if slots:
            file["pos_boxes"] = np.array([[0, 1], [1, 3]])
    content = pickle.dumps({42: 0, 7: 1}, protocol=2) if index is None else index
    (root / "val_imgid2idx.pkl").write_bytes(content)
    return root / "val.hdf5"


def is_whole(regions):
    same = torch.equal(regions.boxes, torch.from_numpy(BOXES))
    return same and torch.equal(regions.vectors, torch.from_numpy(VECTORS))


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


def test_a_row_of_ten_columns_has_scores(tmp_path):
    regions = region_features(put_tsv(tmp_path, lxmert("7"), lxmert()))["42"]
    assert is_whole(regions)
    assert regions.scores.tolist() == [0.5, 0.25]
    assert regions.size == (40, 30)
    assert regions.labels is None


def test_objects_have_words_where_the_vocabulary_lies_beside(tmp_path):
    (tmp_path / "objects_vocab.txt").write_text("tree\ndog,puppy\n")
    file = put_tsv(tmp_path, lxmert("7"), lxmert("8", objects=(2, 0)))
    assert region_features(file)["7"].labels == ["dog,puppy", "tree"]
    with pytest.raises(DataError, match=r"line 2: an object that objects_vocab\.txt lacks"):
        region_features(file)["8"]


def test_a_row_of_six_columns_has_no_scores(tmp_path):
    regions = region_features(put_tsv(tmp_path, butd()))["42"]
    assert is_whole(regions)
    assert regions.scores is None
    assert regions.size == (40, 30)


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


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((butd("1"), butd("2")[:-10]), r"^features\.tsv, line 2: features do not hold 2 vectors"),
        ((butd("1"), butd("2")[:9]), r"^features\.tsv, line 2: 4 columns, not 6 or 10"),
        ((butd("1"), lxmert(vectors=np.eye(2))), r"line 2: vectors 2 wide, those above are 3 wide"),
        ((butd("1"), butd("1")), r"^features\.tsv, line 2: a second row of image 1$"),
        ((butd("1"), butd("01")), r"^features\.tsv has regions of image 01, as one before it"),
        ((butd().replace("\t40\t", "\twide\t"),), r"^features\.tsv, line 1: img_w is no number"),
    ],
)
def test_a_row_that_does_not_fit_is_named_with_its_line(tmp_path, lines, message):
    file = put_tsv(tmp_path, *lines)
    with pytest.raises(DataError, match=message):
        region_features(file)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (lxmert(boxes=BOXES[:1]), r"features\.tsv, line 1: boxes has 4 numbers for 2 boxes"),
        (butd().replace(encode(BOXES), "A" * 5), r"line 1: boxes is no base64 of numbers"),
    ],
)
def test_a_column_that_does_not_fit_is_named_when_it_is_read(tmp_path, row, message):
    features = region_features(put_tsv(tmp_path, row))
    with pytest.raises(DataError, match=message):
        features["42"]


@pytest.mark.parametrize("names", [("x", "boxes"), ("x", "bbox"), ("features", "boxes")])
@pytest.mark.parametrize("turn", [False, True])
def test_npz_may_have_a_row_or_a_column_for_each_region(tmp_path, names, turn):
    vectors = VECTORS.T if turn else VECTORS
    arrays = {names[0]: vectors, names[1]: BOXES, "image_w": 40, "image_h": 30}
    np.savez(tmp_path / "COCO_val2014_000000000042.jpg.npz", **arrays)
    assert is_whole(region_features(tmp_path)["42"])


def test_boxes_that_are_shares_are_scaled_by_the_size_of_the_image(tmp_path):
    shares = BOXES[:, [0, 1, 2, 3, 2, 3]] / [40, 30, 40, 30, 40, 30]
    arrays = {"norm_bb": shares.astype(np.float16), "features": VECTORS.astype(np.float16)}
    np.savez(tmp_path / "flickr30k_000000000042.npz", **arrays, conf=np.array([0.5, 0.25]))
    regions = region_features(tmp_path, {"42": (40, 30)})["42"]
    assert regions.boxes.numpy() == pytest.approx(BOXES, abs=0.02)
    assert regions.scores.tolist() == [0.5, 0.25]
    with pytest.raises(DataError, match=r"000042\.npz does not tell the image's size"):
        region_features(tmp_path)["42"]


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
        ({"x": VECTORS}, r"^42\.npz has no boxes or bbox or norm_bb; it has x, im"),
        ({"x": VECTORS, "boxes": BOXES[:1]}, r"^42\.npz: 1 boxes, but 2 vectors$"),
        ({"x": VECTORS[:0], "boxes": BOXES[:0]}, r"^42\.npz has no regions$"),
        ({"x": np.array([{}]), "boxes": BOXES}, r"^42\.npz cannot be read"),
    ],
)
def test_an_npz_file_that_does_not_fit_is_named(tmp_path, arrays, message):
    np.savez(tmp_path / "42.npz", **arrays, image_w=40, image_h=30)
    with pytest.raises(DataError, match=message):
        region_features(tmp_path)["42"]


def test_an_npz_file_cut_short_is_named(tmp_path):
    np.savez(tmp_path / "42.npz", x=VECTORS, boxes=BOXES)
    file = tmp_path / "42.npz"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"^42\.npz cannot be read \(.*fetch it again"):
        region_features(tmp_path)["42"]


def test_hdf5_may_have_as_many_regions_as_an_image_needs(tmp_path):
    features = region_features(put_ban(tmp_path))
    assert is_whole(features["7"])
    assert features["42"].boxes.tolist() == BOXES[1:].tolist()
    assert features["42"].size == features["7"].size == (40, 30)


def test_hdf5_may_have_as_many_regions_for_each_image(tmp_path):
    assert is_whole(region_features(put_ban(tmp_path, slots=False))["42"])


class Harm:
    def __reduce__(self):
        return (sys.exit, ("harm",))


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (pickle.dumps(Harm()), r"^val_imgid2idx\.pkl is no plain pickle .*it asks for sys\.exit"),
        (pickle.dumps({42: 0})[:-2], r"^val_imgid2idx\.pkl is no plain pickle"),
        (pickle.dumps([42]), r"^val_imgid2idx\.pkl does not give each image the number of a row"),
        (pickle.dumps({42: 2}), r"^val\.hdf5 has 2 images: no row 2 \(42\)"),
    ],
)
def test_a_pickle_that_is_no_index_is_refused_and_runs_nothing(tmp_path, index, message):
    file = put_ban(tmp_path, index=index)
    with pytest.raises(DataError, match=message):
        region_features(file)


def test_an_hdf5_file_that_is_cut_short_lacks_a_column_or_its_index_is_named(tmp_path):
    file = put_ban(tmp_path)
    (tmp_path / "val_imgid2idx.pkl").unlink()
    with pytest.raises(DataAbsent, match=r"^the index of region features is absent; .*idx\.pkl$"):
        region_features(file)
    with h5py.File(file, "a") as content:
        del content["image_bb"]
    with pytest.raises(DataError, match=r"^val\.hdf5 has no image_bb; it has image_features"):
        region_features(file)
    file.write_bytes(file.read_bytes()[:99])
    with pytest.raises(DataError, match=r"^val\.hdf5 is no whole HDF5 file"):
        region_features(file)


def test_without_h5py_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    file = put_ban(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(DataError, match=r"val\.hdf5 is read with h5py: python -m pip install h5py"):
        region_features(file)


def test_what_is_absent_or_no_features_is_told(tmp_path):
    with pytest.raises(DataAbsent, match="region features is absent"):
        region_features(tmp_path)
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataError, match=r"^a\.txt is no \.tsv, \.npz, \.hdf5, \.h5"):
        region_features(tmp_path / "a.txt")


def test_the_real_tsv_has_36_regions_with_scores_and_words(real_data, tmp_path):
    folder = real_data / "bottom_up_features/lxmert_tsv"
    words = folder / "genome/1600-400-20/objects_vocab.txt"
    (tmp_path / "features.tsv").symlink_to(folder / "train2014_obj36.tsv")
    (tmp_path / "objects_vocab.txt").symlink_to(words)
    features = region_features(tmp_path / "features.tsv")
    assert len(features) == 10
    for regions in features.values():
        assert regions.vectors.shape == (36, 2048)
        assert 0 < regions.scores.min() <= regions.scores.max() <= 1
        assert (regions.boxes[:, 2:].max(0).values <= torch.tensor(regions.size)).all()
    first = features["132417"]
    assert (first.labels[0], first.boxes[0, 1].item()) == ("sky", 0)


def test_the_real_npz_files_have_36_regions(real_data):
    features = region_features(real_data / "bottom_up_features/rosita_npz/features")
    assert sorted(map(int, features)) == [58350, 124629, 437564, 504810]
    assert {tuple(r.vectors.shape) for r in features.values()} == {(36, 2048)}
