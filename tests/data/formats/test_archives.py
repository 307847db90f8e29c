import gzip
import io
import struct
import zipfile

import numpy as np
import pytest

from vlbench.data.formats import archives
from vlbench.data.formats.archives import DAMAGED, most_bytes, open_gzip, open_zip, read_npz

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "b": np.array(7, ">i2"), "c": np.zeros((0, 4))}


def npy(shape, descr="<f4", content=b""):
    """Return a file whose header announces an array of this shape."""
    file = io.BytesIO()
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


def put_zip(folder, content, kind=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(folder / "a.npz", "w", kind) as archive:
        archive.writestr("x.npy", content)
    return folder / "a.npz"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_those_that_numpy_saved(tmp_path, save):
    save(tmp_path / "a.npz", **ARRAYS, f=np.asfortranarray(ARRAYS["a"]))
    found = read_npz(tmp_path / "a.npz", [*ARRAYS, "f", "no"])
    assert list(found) == ["a", "b", "c", "f"]
    for name, array in (ARRAYS | {"f": ARRAYS["a"]}).items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype


WRONG_ARRAYS = [
    npy((1 << 40,)),
    npy((1, 1), "<V1073741824"),
    npy((-1,), content=bytes(8)),
    npy((2,), "|O", bytes(16)),
    npy((2, 3), content=bytes(20)),
    b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65_535,
    b"\x93NUMPY\x02\x00\xff\xff\xff\x7f{",
    b"\x93NUMPY\x09\x00",
    b"",
]


@pytest.mark.parametrize("content", WRONG_ARRAYS, ids=range(9))
def test_an_array_of_another_size_than_its_header_says_is_refused(tmp_path, content, little_memory):
    file = put_zip(tmp_path, content)
    with little_memory(), pytest.raises(DAMAGED):
        read_npz(file, ["x"])


def test_a_small_archive_of_gigabytes_is_refused(tmp_path, little_memory):
    file = put_zip(tmp_path, npy((64 << 20,), "|u1") + bytes(64 << 20))
    assert file.stat().st_size < 100_000
    with (
        little_memory(),
        pytest.raises(
            ValueError, match=r"^x\.npy contains 6\d+ bytes; at most 67108864 are allowed$"
        ),
    ):
        read_npz(file, ["x"])


def test_an_archive_that_hides_its_size_is_read_no_further(tmp_path, little_memory):
    file = put_zip(tmp_path, npy((300 << 20,), "|u1") + bytes(300 << 20))
    content = bytearray(file.read_bytes())
    directory = content.rindex(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = struct.pack("<I", 500)
    file.write_bytes(content)
    with little_memory(), pytest.raises(DAMAGED):
        read_npz(file, ["x"])


def test_an_archive_that_is_packed_otherwise_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"^x\.npy is not compressed as NumPy does it$"):
        read_npz(put_zip(tmp_path, npy((0,)), zipfile.ZIP_BZIP2), ["x"])


def zipped(file, content):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("words", content)
    return file


def test_an_archive_that_unpacks_to_much_more_than_its_size_is_refused(tmp_path):
    file = zipped(tmp_path / "bomb.zip", b"0" * 1_000_000)
    with pytest.raises(ValueError, match=r"it has \d+ bytes and unpacks to 1000000 bytes"):
        open_zip(file).__enter__()


def test_an_archive_is_held_to_what_the_caller_expects(tmp_path):
    file = zipped(tmp_path / "w.zip", b"0123456789" * 100)
    with open_zip(file) as archive:
        assert archive.read("words") == b"0123456789" * 100
    with pytest.raises(ValueError, match="malicious"):
        open_zip(file, times=1).__enter__()


def test_a_text_that_unpacks_to_much_more_than_its_size_is_refused(tmp_path):
    file = tmp_path / "bomb.gz"
    file.write_bytes(gzip.compress(b"0" * 1_000_000))
    with open_gzip(file) as stream, pytest.raises(ValueError, match=r"it has .* more than"):
        stream.read()


def test_a_text_is_unpacked(tmp_path):
    (tmp_path / "w.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    with open_gzip(tmp_path / "w.gz") as stream:
        assert stream.readline() == b"one\n"
        assert stream.read() == b"two\n"


def test_no_file_unpacks_to_more_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_UNPACKED", 50)
    (tmp_path / "w").write_bytes(b"0" * 10)
    assert most_bytes(tmp_path / "w", 3) == 30
    assert most_bytes(tmp_path / "w") == 50
