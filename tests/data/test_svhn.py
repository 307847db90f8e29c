import struct
import zlib

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from vlbench.data import svhn as svhn_module
from vlbench.data.records import labels
from vlbench.data.svhn import svhn
from vlbench.errors import DataAbsent, DataError

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


FORM, NOT_SVHN = r"X is .*, not uint8 \[32, 32, 3, N\]", " is not a file of SVHN"
REFUSED = [
    *(({"y": np.array([[1], [2], [y]])}, rf": label {y} is not in 1\.\.10") for y in (0, 11)),
    *(({"x": x}, f": {FORM}") for x in (X.astype(float), X[:31], X[..., 0])),
    *(({"y": y}, NOT_SVHN) for y in ("ten", np.array([1, "a", 2], object), Y * 1j)),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED, ids=range(len(REFUSED)))
def test_images_and_labels_of_another_form_are_named(tmp_path, wrong, message):
    with pytest.raises(DataError, match=rf"^test_32x32\.mat{message}"):
        svhn(root=put(tmp_path, **wrong))


@pytest.mark.parametrize("keep", [60, 200])
def test_a_file_that_is_cut_off_in_its_header_is_named(tmp_path, keep):
    path = put(tmp_path) / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"^test_32x32\.mat is not a file of SVHN"):
        svhn(root=tmp_path)


def test_more_digits_than_the_set_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(svhn_module, "MOST", X.nbytes)
    with pytest.raises(DataError, match=r"^test_32x32\.mat is not a file of SVHN"):
        svhn(root=put(tmp_path))


@pytest.mark.parametrize(
    ("place", "new", "packed"),
    [
        (144, b"\x01", False),
        (144, b"\x01", True),
        (145, b"\x08", False),
        (184, b"\x00", False),
        (184, b"\xff", False),
        (156, b"\xff\xff\xff\xff", False),
    ],
    ids=["cells", "packed cells", "complex", "no type", "another type", "a long part"],
)
def test_a_header_that_would_end_the_process_is_refused(tmp_path, place, new, packed):
    savemat(tmp_path / "test_32x32.mat", {"X": X, "y": Y})
    content = bytearray((tmp_path / "test_32x32.mat").read_bytes())
    content[place : place + len(new)] = new
    if packed:
        part = zlib.compress(content[128:])
        content[128:] = struct.pack("<II", 15, len(part)) + part
    (tmp_path / "test_32x32.mat").write_bytes(content)
    with pytest.raises(DataError, match=r"^test_32x32\.mat is not a file of SVHN"):
        svhn(root=tmp_path)


def test_a_file_of_the_other_byte_order_is_read(tmp_path):
    def part(kind, content):
        return struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)

    def matrix(name, shape, array):
        head = part(6, struct.pack(">II", 9, 0)) + part(5, struct.pack(f">{len(shape)}i", *shape))
        return part(14, head + part(1, name) + part(2, array.tobytes("F")))

    parts = matrix(b"X", X.shape, X) + matrix(b"y", Y.shape, Y)
    (tmp_path / "test_32x32.mat").write_bytes(b"MATLAB".ljust(124) + b"\x01\x00MI" + parts)
    split = svhn(root=tmp_path).splits["test"]
    assert np.array_equal(np.asarray(split["image"][2]), X[..., 2])
    assert labels(split).tolist() == [0, 1, 9]


def test_a_file_without_labels_is_named(tmp_path):
    savemat(tmp_path / "test_32x32.mat", {"X": X})
    with pytest.raises(DataError, match=r"not a file of SVHN \(KeyError\)"):
        svhn(root=tmp_path)


def test_a_file_of_matlab_7_3_says_what_to_do(tmp_path):
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    (tmp_path / "test_32x32.mat").write_bytes(header.ljust(512, b"\0"))
    message = r"^test_32x32\.mat is .*MATLAB 7\.3.*; save it with -v7, or fetch"
    with pytest.raises(DataError, match=message):
        svhn(root=tmp_path)


def test_real_crops_are_those_of_the_file(real_data):
    data = svhn(root=real_data / "svhn/derived_format2")
    content = loadmat(real_data / "svhn/derived_format2/test_32x32.mat")
    assert data.missing_rows() == {"test": 26_032 - 486}
    assert labels(data.splits["test"]).tolist() == (content["y"][:, 0] % 10).tolist()
    assert data.splits["test"]["image"][485].tobytes() == content["X"][..., 485].tobytes()


@pytest.mark.parametrize("folder", ["test", "."])
def test_a_folder_of_whole_photos_is_told_from_the_cropped_digits(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "digitStruct.mat").touch()
    message = r"digits, not the whole photos of digitStruct\.mat\) not found"
    with pytest.raises(DataAbsent, match=message):
        svhn(root=tmp_path)
