import multiprocessing
import os
import signal
import time

import pytest
import torch

from vlbench.data.records import value_column
from vlbench.engine import Engine, shards
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.shards import SHARD, StoredRows, batches, pack, shards_together
from vlbench.engine.store import Store
from vlbench.errors import OutputError
from vlbench.system.files import take_lock

# Forked, so that runs need not import torch again.
fork = multiprocessing.get_context("fork")
COLUMN = value_column(list(range(6 * SHARD)))
KEY = {"what": "squares"}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def computed(store, log, *, seconds=0.01, column=COLUMN):
    """Return squares, slowly; every number that is computed is written down."""

    def square(numbers):
        with open(log, "a") as file:  # noqa: PTH123 - one write, so that no line is torn
            file.write("".join(f"{n}\n" for n in numbers))
        time.sleep(seconds)
        return [n * n for n in numbers]

    engine = Engine(ComputeSettings(torch.device("cpu")), store=store)
    return engine.map(square, column, key=KEY)


def started(*arguments, **options):
    run = fork.Process(target=computed, args=arguments, kwargs=options)
    run.start()
    return run


@pytest.mark.parametrize("damage", ["folder", "folder with a file", "link", "moved", "content"])
def test_what_is_no_shard_in_the_place_of_one_is_computed_again(damage, store, tmp_path):
    before = computed(store, tmp_path / "log", seconds=0)
    first, second, *_ = sorted(store.root.rglob("*.pt"))
    content = second.read_bytes()
    first.unlink()
    if damage.startswith("folder"):
        first.mkdir()
        (first / "file").write_bytes(b"x") if "with" in damage else None
    elif damage == "link":
        first.symlink_to(first)
    elif damage == "moved":
        first.write_bytes(content)
    else:
        store.save(f"sha256:{first.parent.name}", first.stem, {"rows": [0], "other": 1})
    assert computed(store, tmp_path / "again", seconds=0) == before
    assert computed(store, tmp_path / "third", seconds=0) == before
    assert len((tmp_path / "again").read_text().split()) == SHARD
    assert not (tmp_path / "third").exists()


def test_four_runs_at_once_compute_each_shard_about_once(store, tmp_path):
    log = tmp_path / "log"
    runs = [started(store, log) for _ in range(4)]
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0] * 4
    passed = log.read_text().split()
    assert len(set(passed)) == len(COLUMN)
    assert len(passed) <= len(COLUMN) + SHARD
    assert computed(store, log) == [n * n for n in range(len(COLUMN))]
    assert len(log.read_text().split()) == len(passed)
    assert not list(store.root.rglob("*.lock"))


def test_a_run_that_was_killed_holds_no_shard_back(store, tmp_path):
    run = started(store, tmp_path / "log", seconds=60)
    while not (tmp_path / "log").exists():
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGKILL)
    run.join()
    assert list(store.root.rglob("*.lock"))
    start = time.monotonic()
    assert computed(store, tmp_path / "log", seconds=0)[:3] == [0, 1, 4]
    assert time.monotonic() - start < 5


def locked_by_another(store, tmp_path):
    """Return a run that has locked the first shard and does nothing with it."""
    run = started(store, tmp_path / "other log", seconds=600)
    while not (tmp_path / "other log").exists():
        time.sleep(0.01)
    return run


def test_a_shard_that_another_run_never_ends_is_computed_in_the_end(store, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "PATIENCE", 0.5)
    other = locked_by_another(store, tmp_path)
    assert computed(store, tmp_path / "log", seconds=0) == [n * n for n in range(len(COLUMN))]
    assert (tmp_path / "log").read_text().split()[0] == str(SHARD)
    other.kill()
    other.join()


def test_a_shard_is_unlocked_when_the_work_fails(store):
    engine = Engine(ComputeSettings(torch.device("cpu")), store=store)
    with pytest.raises(ZeroDivisionError):
        engine.map(lambda numbers: [1 / n for n in numbers], COLUMN, key=KEY)
    assert not list(store.root.rglob("*.lock"))


def test_locks_of_earlier_versions_are_ignored(store, tmp_path):
    log = tmp_path / "log"
    first = computed(store, log, seconds=0)
    (file,) = store.root.rglob("000000.pt")
    held = take_lock(file.with_suffix(".claim"))
    file.unlink()
    start = time.monotonic()
    assert computed(store, log, seconds=0) == first
    assert time.monotonic() - start < 5
    assert file.exists()
    held.release()


def test_what_is_built_once_is_built_by_one_of_two_runs(store, tmp_path):
    def build():
        (tmp_path / f"built by {os.getpid()}").touch()
        time.sleep(0.3)
        return 5

    def once():
        engine = Engine(ComputeSettings(torch.device("cpu")), store=store)
        assert engine.once(KEY, build) == 5

    runs = [fork.Process(target=once) for _ in range(3)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0] * 3
    assert len(list(tmp_path.glob("built by *"))) == 1


def test_rows_are_cut_into_batches_within_or_across_their_shards():
    shards = [[0, 1, 5, 7], [SHARD, SHARD + 4]]
    assert [*batches(shards, 3)] == [[0, 1, 5], [7], [SHARD, SHARD + 4]]
    assert [*batches(shards, 3, across=True)] == [[0, 1, 5], [7, SHARD, SHARD + 4]]


def test_tensors_of_one_shape_are_packed_and_others_own_their_memory():
    assert pack([torch.zeros(2), torch.ones(2)]).tolist() == [[0, 0], [1, 1]]
    ragged = pack([torch.zeros(100)[:1], torch.ones(2)])
    assert [len(part.untyped_storage()) for part in ragged] == [4, 8]


def put_numbers(store, rows):
    """Store two numbers for each row, shard by shard."""
    for number in sorted({row // SHARD for row in rows}):
        own = [row for row in rows if row // SHARD == number]
        values = torch.tensor([[row, -row] for row in own], dtype=torch.float32)
        store.save("sha256:ab", f"{number:06d}", {"rows": own, "values": values})


ROWS = [700, 3, 256, 3, 255, 701]


def test_stored_rows_are_indexed_like_a_tensor(store):
    put_numbers(store, range(3 * SHARD))
    rows, tensor = StoredRows(store, "sha256:ab", ROWS), torch.tensor([[r, -r] for r in ROWS])
    assert (rows.shape, len(rows)) == (tensor.shape, 6)
    none = torch.tensor([], dtype=int)
    for places in (torch.tensor([5, 0, 0, 4]), slice(2, 5), slice(6, 9), none):
        assert torch.equal(rows[places], tensor[places].float())


def test_stored_rows_follow_a_shard_that_another_run_adds_rows_to(store):
    put_numbers(store, [5, 9])
    rows = StoredRows(store, "sha256:ab", [9])
    put_numbers(store, [2, 5, 7, 9])
    assert rows[slice(0, 1)].tolist() == [[9, -9]]


def test_stored_rows_that_are_lost_are_named(store):
    put_numbers(store, [5, 300])
    rows = StoredRows(store, "sha256:ab", [300, 5])
    put_numbers(store, [5])
    (store.root / "ab" / "ab" / "000000.pt").write_bytes(b"damaged")
    why = "store lacks features that this run wrote; run it again"
    with pytest.raises(OutputError, match=why):
        rows[torch.tensor([1])]


def test_large_features_stay_in_the_store(store, monkeypatch):
    monkeypatch.setattr("vlbench.engine.engine.IN_MEMORY", 8 * len(COLUMN) - 1)
    pairs = Pairs()
    known = {id(pairs): "sha256:pairs"}
    engine = Engine(ComputeSettings(torch.device("cpu")), store=store, identities=known)
    found = engine.large_features(pairs.encode, COLUMN)
    assert isinstance(found, StoredRows)
    assert torch.equal(found[slice(None)], engine.features(pairs.encode, COLUMN))
    monkeypatch.setattr("vlbench.engine.engine.IN_MEMORY", 8 * len(COLUMN))
    assert isinstance(engine.large_features(pairs.encode, COLUMN), torch.Tensor)


class Pairs:
    """Encodes a number as itself and its double."""

    def encode(self, numbers):
        return torch.tensor([[n, 2 * n] for n in numbers], dtype=torch.float32)


@pytest.mark.parametrize(
    ("of_each", "rows", "together"),
    [(0.5, 256, 1), (16, 256, 1), (19, 256, 2), (900, 256, 4), (900, 1, 57)],
)
def test_processes_exchange_seldom_and_not_much_at_once(of_each, rows, together):
    assert shards_together(of_each, rows) == together


class Reads:
    """Encodes a text as the number in it."""

    def encode_texts(self, texts):
        return torch.tensor([[float(text), 1.0] for text in texts])


# 70 and 5,000 rows: the last exchange of each is not full.
def all_outputs(processes):
    engine = Engine(ComputeSettings(torch.device("cpu")), processes=processes)
    numbers = value_column(list(range(70)))
    doubled = engine.map(lambda some: [2 * n for n in some], numbers, one_by_one=True)
    texts = value_column([str(n) for n in range(5000, 0, -1)], "text")
    return doubled, engine.features(Reads().encode_texts, texts)[:, 0].tolist()


def test_three_processes_have_all_outputs_in_order(pair):
    for doubled, features in pair(all_outputs, size=3):
        assert doubled == [2 * n for n in range(70)]
        assert features == list(range(5000, 0, -1))
