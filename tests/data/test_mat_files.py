import struct
import zlib

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from vlbench.data.mat_files import read_mat

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
