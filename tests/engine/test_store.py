import errno
import hashlib
import io
import os

import numpy as np
import pytest
import torch

from vlbench.capabilities import TokenVectors
from vlbench.engine.store import Store
from vlbench.errors import OutputError

KEY = "sha256:" + "ab" * 32


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def only_file(store):
    (file,) = [path for path in store.root.rglob("*") if path.is_file()]
    return file


def test_a_nested_value_comes_back(store):
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    value = {"rows": [0, 5], "values": [{"t": tensor, "n": None}, (1.5, "ä", True)]}
    store.save(KEY, "000000", value)
    found = store.load(KEY, "000000")
    assert torch.equal(found["values"][0].pop("t"), tensor)
    assert found == {"rows": [0, 5], "values": [{"n": None}, (1.5, "ä", True)]}


def test_keys_and_parts_are_kept_apart(store):
    other = KEY[:-1] + "c"
    for key, part in ((KEY, "0"), (KEY, "1"), (other, "0")):
        store.save(key, part, {"x": key + part})
    assert store.load(KEY, "1") == {"x": KEY + "1"}
    assert store.load(other, "0") == {"x": other + "0"}
    assert store.load(other, "1") is None


def test_the_last_value_stands_for_other_runs_too(store):
    store.save(KEY, "0", {"x": 1})
    store.save(KEY, "0", {"x": 2})
    assert store.load(KEY, "0") == Store(store.root).load(KEY, "0") == {"x": 2}
    assert only_file(store).name == "0.pt"


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 200, -1])
def test_a_truncated_file_is_absent(store, size):
    store.save(KEY, "0", {"x": torch.zeros(100)})
    file = only_file(store)
    file.write_bytes(file.read_bytes()[:size])
    assert store.load(KEY, "0") is None


def test_an_absent_value_can_be_saved_again(store):
    store.save(KEY, "0", {"x": 1})
    only_file(store).write_bytes(b"garbage")
    store.save(KEY, "0", {"x": 1})
    assert store.load(KEY, "0") == {"x": 1}


def test_a_full_disk_is_told_and_leaves_nothing(store, monkeypatch):
    def no_room(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fchmod", no_room)
    with pytest.raises(OutputError, match=r"cannot write .*0\.pt: No space left on device"):
        store.save(KEY, "0", {"x": 1})
    assert [path for path in store.root.rglob("*") if path.is_file()] == []
    assert store.load(KEY, "0") is None


def test_a_file_in_place_of_the_store_is_told_when_saving_and_locking_and_holds_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file")
    with pytest.raises(OutputError, match=r"cannot write .*file/"):
        store.save(KEY, "0", {"x": 1})
    with pytest.raises(OutputError, match=r"cannot write .*0\.lock"):
        store.lock(KEY, "0")
    assert store.load(KEY, "0") is None


@pytest.mark.parametrize(
    "value", [np.float64(0.5), np.zeros(2), TokenVectors([(0, 1)], torch.zeros(1, 2))]
)
def test_what_cannot_be_read_back_is_not_saved(store, value):
    with pytest.raises(TypeError, match=type(value).__name__):
        store.save(KEY, "0", {"values": [value]})


def test_a_row_of_a_batch_is_stored_without_the_batch(store):
    store.save(KEY, "0", {"values": [torch.zeros(100_000)[:2]]})
    assert only_file(store).stat().st_size < 10_000


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: {"a": [one]}])
def test_a_view_is_stored_as_what_it_shows(store, wrap):
    numbers = torch.tensor([1.0, 2.0])
    for view in (torch._neg_view(numbers), torch.complex(numbers, numbers).conj()):
        store.save(KEY, "a", {"x": wrap(view)})
        saved = store.load(KEY, "a")["x"]
        assert torch.equal(saved["a"][0] if isinstance(saved, dict) else saved, view)


def test_a_lock_is_held_by_one_until_it_is_unlocked(store):
    unlock = store.lock(KEY, "0")
    assert Store(store.root).lock(KEY, "0") is None
    assert store.lock(KEY, "1") is not None
    unlock()
    assert list(store.root.rglob("0.lock")) == []
    assert store.lock(KEY, "0") is not None


def test_whoever_waits_too_long_for_a_lock_goes_on_without(store):
    unlock = store.lock(KEY, "0")
    with store.locked(KEY, "0", seconds=0.1):
        assert store.lock(KEY, "0") is None
    unlock()


def test_a_file_of_an_earlier_release_is_read(store):
    body = io.BytesIO()
    value = {"rows": [0, 5], "values": torch.arange(6.0).reshape(2, 3)}
    torch.save(value, body)
    store.save(KEY, "0", {"x": 1})
    only_file(store).write_bytes(hashlib.sha256(body.getvalue()).digest() + body.getvalue())
    found = store.load(KEY, "0")
    assert found["rows"] == [0, 5]
    assert torch.equal(found["values"], value["values"])
    located = store.locate(KEY, "0", "values")
    content = only_file(store).read_bytes()[located.start : located.start + 24]
    assert np.array_equal(np.frombuffer(content, np.float32), range(6))


@pytest.mark.parametrize(
    "value",
    [
        {"rows": torch.arange(3), "values": torch.rand(4, 3).T},
        {"empty": torch.zeros(0, 5), "other": torch.zeros(0)},
        {"half": torch.rand(2).bfloat16(), "true": torch.ones(2, dtype=torch.bool)},
        {"complex": torch.rand(2, dtype=torch.complex64)},
        {},
    ],
)
def test_tensors_come_back(store, value):
    store.save(KEY, "0", value)
    found = store.load(KEY, "0")
    assert found.keys() == value.keys()
    assert all(found[name].dtype == one.dtype for name, one in value.items())
    assert all(torch.equal(found[name], one) for name, one in value.items())


def test_tensors_that_share_their_memory_come_back(store):
    one = torch.rand(3)
    store.save(KEY, "0", {"a": one, "b": one})
    assert torch.equal(store.load(KEY, "0")["b"], one)


def test_altered_tensors_are_absent(store):
    store.save(KEY, "0", {"rows": torch.arange(9), "values": torch.rand(9, 7)})
    content = only_file(store).read_bytes()
    for place in (*range(40), len(content) // 2, -1):
        altered = bytearray(content)
        altered[place] ^= 4
        only_file(store).write_bytes(altered)
        assert store.load(KEY, "0") is None
