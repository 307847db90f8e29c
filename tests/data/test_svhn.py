import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image
from scipy.io import loadmat, savemat

from vlbench.data import svhn as svhn_module
from vlbench.data.records import labels
from vlbench.data.svhn import read_mat, svhn, svhn_numbers
from vlbench.errors import DataError

X = np.random.default_rng(0).integers(0, 256, (32, 32, 3, 3), np.uint8)
Y = np.array([[10], [1], [9]], np.uint8)


def put(root, x=X, y=Y, split="test"):
    savemat(root / f"{split}_32x32.mat", {"X": x, "y": y}, do_compression=True)
    return root


def test_the_last_axis_counts_images_and_ten_is_zero(tmp_path):
    split = svhn(root=put(tmp_path)).splits["test"]
    assert np.array_equal(np.asarray(split["image"][1]), X[..., 1])
    assert labels(split).tolist() == [0, 1, 9]


def test_a_single_image_keeps_its_axis(tmp_path):
    split = svhn(root=put(tmp_path, X[..., :1], Y[:1])).splits["test"]
    assert np.array_equal(np.asarray(split["image"][0]), X[..., 0])


def test_a_part_of_the_set_says_what_it_lacks(tmp_path):
    data = svhn(root=put(tmp_path, split="train"))
    assert data.missing_rows() == {"train": 73_254}
    assert data.classes[0] == "zero"


@pytest.mark.parametrize("label", [0, 11])
def test_a_label_that_is_no_digit_is_named(tmp_path, label):
    with pytest.raises(DataError, match=rf"test_32x32\.mat: label {label} is not in 1\.\.10"):
        svhn(root=put(tmp_path, y=np.array([[1], [2], [label]])))


@pytest.mark.parametrize("x", [X.astype(float), X[:31], X[..., 0]])
def test_images_of_another_form_are_named(tmp_path, x):
    with pytest.raises(DataError, match=r"^test_32x32\.mat: X is .*, not uint8 \[32, 32, 3, N\]"):
        svhn(root=put(tmp_path, x))


def test_counts_that_differ_are_named(tmp_path):
    with pytest.raises(DataError, match=r"test_32x32\.mat: 3 images, but 2 labels"):
        svhn(root=put(tmp_path, y=Y[:2]))


@pytest.mark.parametrize("keep", [60, 200])
def test_a_file_that_is_cut_off_in_its_header_is_named(tmp_path, keep):
    path = put(tmp_path) / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"^test_32x32\.mat is not a file of SVHN"):
        svhn(root=tmp_path)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(tmp_path, little_memory):
    part = zlib.compress(bytes(300 << 20))
    content = bytes(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(part)) + part
    (tmp_path / "test_32x32.mat").write_bytes(content)
    with little_memory(), pytest.raises(DataError, match=r"^test_32x32\.mat .*\(ValueError\)"):
        svhn(root=tmp_path)


def test_more_digits_than_the_set_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(svhn_module.CROPS, "train", 2)
    with pytest.raises(DataError, match=r"^test_32x32\.mat holds 3 digits, the set at most 2"):
        svhn(root=put(tmp_path))


def test_a_file_without_labels_is_named(tmp_path):
    savemat(tmp_path / "test_32x32.mat", {"X": X})
    with pytest.raises(DataError, match=r"not a file of SVHN \(KeyError\)"):
        svhn(root=tmp_path)


def test_full_numbers_without_h5py_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "test").mkdir()
    (tmp_path / "test/digitStruct.mat").touch()
    with pytest.raises(
        DataError, match=r"^test/digitStruct\.mat needs h5py .*pip install 'vlbench\[hdf5\]'"
    ):
        svhn_numbers(root=tmp_path)


def digit_struct(path, fields):
    """Write pictures as MATLAB 7.3 does: one number as it is, several as references."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(path, "w") as file:
        one = file.create_group("box1")
        two = file.create_group("box2")
        for key, (single, pair) in fields.items():
            one[key] = [[float(single)]]
            parts = [
                file.create_dataset(f"{key}{i}", data=[[float(v)]]) for i, v in enumerate(pair)
            ]
            two[key] = np.array([[part.ref] for part in parts], h5py.ref_dtype)
        names = [file.create_dataset(n, data=np.array([[ord(c)] for c in n], "u2")) for n in NAMES]
        file["digitStruct/name"] = np.array([[name.ref] for name in names], h5py.ref_dtype)
        file["digitStruct/bbox"] = np.array([[one.ref], [two.ref]], h5py.ref_dtype)


NAMES = ["1.png", "2.png"]
FIELDS = {
    "height": (9, (4, 5)),
    "label": (10, (1, 9)),
    "left": (2, (0, 6)),
    "top": (3, (1, 1)),
    "width": (5, (6, 6)),
}


def test_full_numbers_give_boxes_and_labels(tmp_path):
    (tmp_path / "test").mkdir()
    digit_struct(tmp_path / "test/digitStruct.mat", FIELDS)
    Image.new("RGB", (20, 15), "red").save(tmp_path / "test/1.png")
    Image.new("RGB", (12, 10)).save(tmp_path / "test/2.png")
    split = svhn_numbers(root=tmp_path).splits["test"]
    assert list(split["boxes"]) == [[[2, 3, 7, 12]], [[0, 1, 6, 5], [6, 1, 12, 6]]]
    assert list(split["labels"]) == [[0], [1, 9]]
    assert [image.size for image in split["image"]] == [(20, 15), (12, 10)]


@pytest.mark.parametrize(
    ("field", "value"), [("label", np.zeros((1000, 1))), ("left", [[np.nan]]), ("top", [["a"]])]
)
def test_a_digit_struct_of_other_values_is_named(tmp_path, field, value):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    (tmp_path / "test").mkdir()
    digit_struct(tmp_path / "test/digitStruct.mat", FIELDS)
    with h5py.File(tmp_path / "test/digitStruct.mat", "a") as file:
        del file["box1"][field]
        file["box1"][field] = value
    with pytest.raises(DataError, match=r"^test/digitStruct\.mat is not a file of SVHN"):
        svhn_numbers(root=tmp_path)


def test_real_crops_are_those_of_the_file(real_data):
    data = svhn(root=real_data / "svhn/derived_format2")
    content = loadmat(real_data / "svhn/derived_format2/test_32x32.mat")
    assert data.missing_rows() == {"test": 26_032 - 486}
    assert labels(data.splits["test"]).tolist() == (content["y"][:, 0] % 10).tolist()
    assert data.splits["test"]["image"][485].tobytes() == content["X"][..., 485].tobytes()


def test_real_numbers_have_their_digits(real_data):
    pytest.importorskip("h5py", reason="h5py is not installed")
    splits = svhn_numbers(root=real_data / "svhn/format1").splits
    digits = [sum(map(len, splits[name]["labels"])) for name in ("train", "test")]
    assert ([len(splits["train"]), len(splits["test"])], digits) == ([39, 40], [83, 76])
    first = Image.open(real_data / "svhn/format1/test/1.png").convert("RGB")
    assert splits["test"]["image"][0].tobytes() == first.tobytes()
    assert next(iter(splits["test"]["labels"])) == [5]


ARRAYS = {
    "X": np.random.default_rng(0).integers(0, 256, (4, 3, 2, 5), np.uint8),
    "y": np.array([[10], [1]], np.uint8),
    "long_name": np.array([[1.5, -2], [3, 4]]),
    "z": np.arange(3, dtype=np.int16).reshape(1, 3),
}


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_are_those_that_scipy_reads(tmp_path, packed):
    others = {"text": "a", "cell": np.array([1, "a"], object), "complex": 1j}
    savemat(tmp_path / "a.mat", ARRAYS | others, do_compression=packed)
    found, wanted = (
        read_mat(tmp_path / "a.mat", [*ARRAYS, "no"], most=1000),
        loadmat(tmp_path / "a.mat"),
    )
    assert set(found) == set(ARRAYS)
    for name, array in found.items():
        assert array.dtype == wanted[name].dtype
        assert np.array_equal(array, wanted[name])


def test_an_array_of_the_other_byte_order_is_read(tmp_path):
    def part(kind, content):
        return struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)

    flags, shape = struct.pack(">II", 11, 0), struct.pack(">ii", 1, 2)
    body = part(6, flags) + part(5, shape) + part(1, b"y") + part(4, b"\x01\x02\x00\x03")
    (tmp_path / "a.mat").write_bytes(bytes(124) + b"\x01\x00MI" + part(14, body))
    assert read_mat(tmp_path / "a.mat", ["y"], most=99)["y"].tolist() == [[258, 3]]


@pytest.mark.parametrize("name", ["text", "cell", "complex"])
def test_what_is_no_array_of_numbers_is_refused(tmp_path, name):
    content = {"text": "a", "cell": np.array([1, "a"], object), "complex": 1j}
    savemat(tmp_path / "a.mat", content)
    with pytest.raises(ValueError, match=f"{name} is no matrix of real numbers"):
        read_mat(tmp_path / "a.mat", [name], most=1000)


@pytest.mark.parametrize("packed", [False, True])
def test_more_bytes_than_asked_for_are_refused(tmp_path, packed, little_memory):
    savemat(tmp_path / "a.mat", {"X": np.zeros((100, 100, 100), np.uint8)}, do_compression=packed)
    with little_memory(), pytest.raises(ValueError, match="is cut off or over 999999"):
        read_mat(tmp_path / "a.mat", ["X"], most=999_999)


def test_a_small_file_of_gigabytes_is_read_no_further(tmp_path, little_memory):
    part = zlib.compress(bytes(400 << 20), 1)
    content = bytes(124) + b"\x00\x01IM" + struct.pack("<II", 15, len(part)) + part
    (tmp_path / "a.mat").write_bytes(content)
    with little_memory(), pytest.raises(ValueError, match="is cut off or over 1000"):
        read_mat(tmp_path / "a.mat", ["X"], most=1000)


@pytest.mark.parametrize(
    ("place", "new", "message"),
    [
        (124, b"x", "not a MATLAB 5 file"),
        (132, b"\xff\xff\xff\xff", "a part of 4294967295 bytes is cut off"),
        (176, b"\x02\x02\x00\x00", "X is of type 514"),
        (160, b"\xff\xff\xff\xff", "X is of type 2 and shape"),
        (160, b"\x09\x00\x00\x00", "X has 6 numbers, not the"),
        (180, b"\xff\x00\x00\x00", "a part of a matrix is cut off"),
    ],
)
def test_a_damaged_number_is_refused(tmp_path, place, new, message):
    savemat(tmp_path / "a.mat", {"X": np.arange(6, dtype=np.uint8).reshape(1, 6)})
    content = bytearray((tmp_path / "a.mat").read_bytes())
    content[place : place + len(new)] = new
    (tmp_path / "a.mat").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_mat(tmp_path / "a.mat", ["X"], most=1000)
