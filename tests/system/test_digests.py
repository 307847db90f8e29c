import hashlib
import io
import os
import sqlite3
import subprocess
import sys
import tracemalloc
from contextlib import closing

import numpy as np
import pytest
import torch

import vlbench.system.digests
from vlbench.system.digests import bytes_digest, digest, file_digests, path_digest

LONG_AGO = 1_000_000_000

WRITER = """
import os, sys
from contextlib import closing
from pathlib import Path
from vlbench.system import digests
digests.memory.set(Path(sys.argv[1]))
digests.SETTLED_NS = -1
for file in sorted(Path(sys.argv[2]).iterdir()):
    digests.file_digests([file], "bytes")
"""


@pytest.fixture(autouse=True)
def no_memory():
    token = vlbench.system.digests.memory.set(None)
    yield
    vlbench.system.digests.memory.reset(token)


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """The file of a memory that takes a file written a moment ago for settled."""
    file = tmp_path / "cache" / "digests.sqlite"
    vlbench.system.digests.memory.set(file)
    monkeypatch.setattr(vlbench.system.digests, "SETTLED_NS", -1)
    return file


class Counting:
    """Digests a file's bytes, and counts how often."""

    def __init__(self):
        self.calls = 0

    def __call__(self, path):
        self.calls += 1
        return bytes_digest(path)


def old_file(file, text="x"):
    file.write_text(text)
    os.utime(file, (LONG_AGO, LONG_AGO))
    return file


@pytest.mark.parametrize("make", [np.ones, torch.ones])
def test_digesting_a_large_array_takes_no_memory_for_another(make):
    array = make(4_000_000)
    tracemalloc.start()
    digest(array)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize("values", [[], 3.0, [True, False], [[1, 2], [3, 4]], ["a", "bc"]])
def test_an_array_is_known_by_its_kind_its_shape_and_its_bytes(values):
    array = np.array(values)
    head = f"{array.dtype.descr}{array.shape}".encode()
    known = {"array": hashlib.sha256(head + array.tobytes()).hexdigest()}
    assert digest(array) == digest(known)


def test_a_digest_is_a_sha256_with_its_name():
    assert (
        digest({"b": [1, None], "a": "ä"})
        == "sha256:" + hashlib.sha256(b'{"a":"\\u00e4","b":[1,null]}').hexdigest()
    )


def test_the_order_of_keys_does_not_matter_and_that_of_a_list_does():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest([1, 2]) != digest([2, 1])


def test_plain_values_of_different_kinds_differ():
    values = [1, 1.0, True, "1", None, "null", [1], {"1": 1}, [], {}, "", 0, False]
    assert len({digest(value) for value in values}) == len(values)


def test_a_tuple_a_range_and_numpy_numbers_are_what_they_hold():
    assert digest((1, 2)) == digest(range(1, 3)) == digest([np.int64(1), np.uint8(2)])
    assert digest(np.float64(0.1)) == digest(0.1)


def test_the_path_and_the_date_of_a_file_do_not_matter(tmp_path):
    (tmp_path / "new.txt").write_text("same")
    old = old_file(tmp_path / "old.bin", "same")
    assert digest({"weights": old}) == digest({"weights": tmp_path / "new.txt"})


def test_the_content_of_a_file_matters(tmp_path):
    file = tmp_path / "a"
    file.write_text("one")
    before = digest(file)
    file.write_text("two")
    assert digest(file) != before


def test_a_path_is_no_text(tmp_path):
    file = old_file(tmp_path / "a")
    assert digest(file) != digest(str(file))


def test_the_digest_of_bytes_is_their_sha256(tmp_path):
    file = old_file(tmp_path / "a", "abc")
    assert bytes_digest(file) == path_digest(file) == hashlib.sha256(b"abc").hexdigest()


def test_two_folders_of_the_same_files_have_one_digest(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "x").write_text("1")
        (tmp_path / name / "y").write_text("2")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


def test_names_and_contents_of_a_folder_matter(tmp_path):
    files = [("a", "x", "1"), ("b", "y", "1"), ("c", "x", "2"), ("d", "deep/x", "1")]
    for folder, name, text in files:
        (tmp_path / folder / name).parent.mkdir(parents=True)
        (tmp_path / folder / name).write_text(text)
    assert len({digest(tmp_path / folder) for folder, _, _ in files}) == 4


def test_an_array_is_its_numbers_shape_and_dtype():
    flat = np.arange(6)
    arrays = [
        flat,
        flat.reshape(2, 3),
        flat.reshape(3, 2),
        flat.astype("int32"),
        flat.astype(float),
    ]
    assert len({digest(a) for a in [*arrays, flat[::-1], flat.tolist()]}) == 7


def test_the_layout_of_an_array_does_not_matter():
    array = np.arange(12.0).reshape(3, 4)
    assert digest(np.asfortranarray(array)) == digest(array)
    assert digest(array[:, ::2]) == digest(array[:, ::2].copy())


def test_a_tensor_and_an_array_of_the_same_numbers_agree():
    tensor = torch.arange(6.0).reshape(2, 3)
    assert digest(tensor) == digest(tensor.numpy()) == digest(tensor.clone().requires_grad_())
    assert digest(tensor) != digest(tensor.double())
    assert digest(tensor.T) != digest(tensor)


def test_bfloat16_is_the_float32_that_it_equals():
    tensor = torch.tensor([0.5, -3.0], dtype=torch.bfloat16)
    assert digest(tensor) == digest(np.array([0.5, -3.0], np.float32))


def test_infinite_numbers_can_be_digested():
    assert len({digest(float(x)) for x in ("nan", "inf", "-inf")}) == 3


def test_an_array_of_objects_is_refused():
    with pytest.raises(TypeError, match="cannot digest an array of objects"):
        digest({"a": np.array([None, "x"], dtype=object)})


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), print, torch.nn.ReLU(), 1j])
def test_anything_else_is_refused_by_the_name_of_its_type(value):
    with pytest.raises(TypeError, match=f"cannot digest a .*{type(value).__name__}"):
        digest([{"deep": value}])


def test_the_version_of_torch_is_a_text():
    assert digest(torch.__version__) == digest(str(torch.__version__))


def test_an_open_file_is_refused_and_stays_open():
    file = io.TextIOWrapper(io.BytesIO())
    with pytest.raises(TypeError, match=r"cannot digest a .*TextIOWrapper"):
        digest(file)
    assert file.write("still open") == 10


def test_a_path_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        digest(tmp_path / "gone")


def test_what_lies_behind_a_link_to_a_folder_matters(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "real").mkdir()
    (tmp_path / "model" / "link").symlink_to(tmp_path / "real")
    before = digest(tmp_path / "model")
    (tmp_path / "real" / "weights").write_text("x")
    assert digest(tmp_path / "model") != before


def test_keys_that_are_the_same_as_texts_are_refused():
    with pytest.raises(TypeError, match="keys that are equal as texts"):
        digest({1: "a", "1": "b"})


def test_the_fields_of_an_array_matter():
    one, two = (np.zeros(2, [("x", kind)]) for kind in ("<i4", "<f4"))
    assert digest(one) != digest(two)


def test_a_list_that_holds_itself_is_refused():
    ring = []
    ring.append(ring)
    with pytest.raises(TypeError, match="list"):
        digest(ring)


def test_a_file_is_digested_once_and_then_remembered(tmp_path, memory):
    compute, file = Counting(), old_file(tmp_path / "a")
    first = file_digests([file], "bytes", compute)
    assert file_digests([file], "bytes", compute) == first == [bytes_digest(file)]
    assert (compute.calls, memory.exists()) == (1, True)


@pytest.mark.usefixtures("memory")
def test_the_files_of_a_renamed_folder_are_still_known(tmp_path):
    (tmp_path / "a").mkdir()
    compute, file = Counting(), old_file(tmp_path / "a" / "x")
    file_digests([file], "bytes", compute)
    (tmp_path / "a").rename(tmp_path / "b")
    file_digests([tmp_path / "b" / "x"], "bytes", compute)
    assert compute.calls == 1


@pytest.mark.usefixtures("memory")
def test_a_file_rewritten_with_its_size_and_date_is_digested_again(tmp_path):
    file = old_file(tmp_path / "a", "one")
    file_digests([file], "bytes")
    old_file(file, "two")
    assert file_digests([file], "bytes") == [hashlib.sha256(b"two").hexdigest()]


@pytest.mark.usefixtures("memory")
def test_a_file_that_was_just_written_is_not_remembered_whatever_its_date(tmp_path, monkeypatch):
    monkeypatch.setattr(vlbench.system.digests, "SETTLED_NS", 2_000_000_000)
    compute = Counting()
    old_file(tmp_path / "a")
    file_digests([tmp_path / "a"], "bytes", compute)
    file_digests([tmp_path / "a"], "bytes", compute)
    assert compute.calls == 2


@pytest.mark.usefixtures("memory")
def test_a_file_with_another_date_or_size_is_digested_again(tmp_path):
    compute, file = Counting(), old_file(tmp_path / "a", "one")
    file_digests([file], "bytes", compute)
    os.utime(file, (LONG_AGO, LONG_AGO + 1))
    file_digests([file], "bytes", compute)
    old_file(file, "longer")
    assert file_digests([file], "bytes", compute) == [hashlib.sha256(b"longer").hexdigest()]
    assert compute.calls == 3


@pytest.mark.usefixtures("memory")
def test_one_file_may_have_two_digests(tmp_path):
    file = old_file(tmp_path / "a")
    assert file_digests([file], "pixels", lambda _: "p") == ["p"]
    assert file_digests([file], "bytes", lambda _: "b") == ["b"]
    assert file_digests([file], "pixels", lambda _: "new") == ["p"]


def test_a_file_given_twice_is_digested_once(tmp_path):
    compute, file = Counting(), old_file(tmp_path / "a")
    other = old_file(tmp_path / "b", "y")
    found = file_digests([file, other, file], "bytes", compute)
    assert found == [bytes_digest(path) for path in (file, other, file)]
    assert compute.calls == 2


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("asked", [1, 2, 3])
def test_digests_are_looked_up_in_parts(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(vlbench.system.digests, "ASKED", asked)
    compute, files = Counting(), [old_file(tmp_path / name, name) for name in "abc"]
    first = file_digests(files, "bytes", compute)
    assert file_digests([*map(str, reversed(files))], "bytes", compute) == first[::-1]
    assert compute.calls == 3


def test_no_files_have_no_digests(memory):
    assert file_digests([], "bytes") == []
    assert not memory.exists()


def test_without_a_memory_nothing_is_remembered(tmp_path):
    compute, file = Counting(), old_file(tmp_path / "a")
    file_digests([file], "bytes", compute)
    file_digests([file], "bytes", compute)
    assert compute.calls == 2


def test_two_processes_at_once_share_a_memory(tmp_path, memory):
    (tmp_path / "files").mkdir()
    files = [old_file(tmp_path / "files" / f"{i:02d}", str(i)) for i in range(40)]
    command = [sys.executable, "-c", WRITER, str(memory), str(tmp_path / "files")]
    runs = [subprocess.Popen(command) for _ in range(2)]
    assert [run.wait(60) for run in runs] == [0, 0]
    compute = Counting()
    assert file_digests(files, "bytes", compute) == [bytes_digest(file) for file in files]
    assert compute.calls == 0


@pytest.mark.parametrize("damage", ["'x' || digest", "substr(digest, 1, 20)", "NULL", "7", "x'00'"])
def test_a_damaged_digest_is_computed_again(damage, tmp_path, memory):
    compute, file = Counting(), old_file(tmp_path / "a")
    file_digests([file], "bytes", compute)
    with closing(sqlite3.connect(memory)) as base, base:
        base.execute(f"UPDATE digests SET digest = {damage}")  # noqa: S608 - of this table
    for _ in range(2):
        assert file_digests([file], "bytes", compute) == [bytes_digest(file)]
    assert compute.calls == 2


def test_a_broken_memory_is_no_memory(tmp_path, memory):
    memory.parent.mkdir()
    memory.write_text("not a data base" * 100)
    file = old_file(tmp_path / "a")
    assert file_digests([file], "bytes") == [bytes_digest(file)]


@pytest.mark.parametrize("name", ["a/digests.sqlite", ""])
def test_a_memory_that_cannot_be_written_is_no_memory(tmp_path, name):
    file = old_file(tmp_path / "a")
    vlbench.system.digests.memory.set(tmp_path / name)
    assert file_digests([file], "bytes") == [bytes_digest(file)]


@pytest.mark.usefixtures("memory")
def test_a_file_that_changes_while_it_is_read_is_not_remembered(tmp_path):
    file = old_file(tmp_path / "a", "one")

    def compute(_):
        old_file(file, "two")
        return "of one"

    file_digests([file], "bytes", compute)
    assert file_digests([file], "bytes") == [hashlib.sha256(b"two").hexdigest()]
