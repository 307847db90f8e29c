"""Runs that are killed, disturbed or starved of disk lose nothing that was whole."""

import json
import multiprocessing
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from fakes import Reader
from sources import TASK, make_images, make_source, write

import vlbench
from vlbench.engine.shards import SHARD
from vlbench.errors import OutputError

# Forked, so that twenty runs need not import torch twenty times.
fork = multiprocessing.get_context("fork")

TASKS = ["few_shot_digits", "clustering_digits", "transfer_digits"]
DIGITS = 1797


ROOT = Path(__file__).resolve().parents[1]


def test_contributing_says_in_25_lines_how_runs_resume_and_names_what_is_there():
    whole = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    text = whole.partition("## How a run resumes\n")[2].partition("\n## ")[0]
    files = [ROOT / "vlbench" / name for name in re.findall(r"`([\w/]+\.py)`", text)]
    code = "".join(file.read_text("utf-8") for file in files)
    functions = re.findall(r"`([a-z]+_[a-z]+)`", text)
    assert len(text.splitlines()) <= 25
    assert {"request_of", "features_key", "take_lock"} <= set(functions)
    assert [name for name in functions if f"def {name}(" not in code] == []
    assert "claim" not in text
    assert {"once.pt", "train.pt", "train.lock", "000012.lock"} <= set(re.findall(r"[\w.]+", text))
    assert 'with_suffix(".lock")' in code


class Slow(Reader):
    """Takes its time, and writes down how many images it saw."""

    def __init__(self, log):
        self.log = str(log)

    def encode_images(self, pixels):
        with open(self.log, "a") as file:  # noqa: PTH123 - one write, so that no line is torn
            file.write(f"{len(pixels)}\n")
        time.sleep(0.01)
        return pixels.flatten(1)

    @property
    def fingerprint(self):
        return "the same in every run"


def start(folder, log, **options):
    """Start a run in a process of its own."""
    work = {"output": folder / "boards", "cache_dir": folder / "cache"} | options
    run = fork.Process(target=vlbench.evaluate, args=(Slow(log), TASKS), kwargs=work)
    run.start()
    return run


def finish(folder, log, **options):
    run = start(folder, log, **options)
    run.join()
    assert run.exitcode == 0


def boards(folder):
    """Return all boards without what may differ from one run to the next."""
    found = {name: json.loads((folder / "boards" / f"{name}.json").read_text()) for name in TASKS}
    for board in found.values():
        board["rows"] = [row | {"run": {}} for row in board["rows"]]
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The boards of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    finish(folder, folder / "log")
    return boards(folder)


@pytest.mark.slow
def test_a_run_killed_at_twenty_random_moments_ends_as_an_undisturbed_one(tmp_path, undisturbed):
    log = tmp_path / "log"
    for delay in np.random.default_rng(0).uniform(0.1, 1.2, 20):
        run = start(tmp_path, log)
        run.join(delay)
        run.kill()
        run.join()
    finish(tmp_path, log)
    assert boards(tmp_path) == undisturbed
    passed = sum(int(line) for line in log.read_text().split())
    assert DIGITS <= passed <= DIGITS + 20 * SHARD


def dies_at(sync, writes):
    """Return an fsync during whose n-th call the process is killed."""
    left = iter(range(writes, 0, -1))

    def die(handle):
        if next(left) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        sync(handle)

    return die


@pytest.mark.slow
@pytest.mark.parametrize("writes", [1, 4, 9, 11])
def test_a_run_killed_while_it_writes_leaves_whole_files(
    tmp_path, monkeypatch, undisturbed, writes
):
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", dies_at(os.fsync, writes))
        killed = start(tmp_path, tmp_path / "log")
        killed.join()
    assert killed.exitcode == -signal.SIGKILL
    for file in (tmp_path / "boards").glob("*.json"):
        json.loads(file.read_text())
    finish(tmp_path, tmp_path / "log")
    assert boards(tmp_path) == undisturbed


@pytest.mark.slow
def test_two_runs_at_once_on_one_store_and_one_folder_complete_all_boards(tmp_path):
    runs = [start(tmp_path / "shared", tmp_path / "log", name=name) for name in ("one", "two")]
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0]
    for board in boards(tmp_path / "shared").values():
        assert [row["model"] for row in board["rows"]] == ["one", "two"]
        assert [row["status"] for row in board["rows"]] == ["ok", "ok"]


def test_a_full_disk_ends_the_run_with_a_message_and_loses_nothing_whole(tmp_path, monkeypatch):
    source = make_source(tmp_path / "ours")
    make_images(source / "more", count=100)
    write(source / "tasks" / "b.yaml", TASK.replace("../images", "../more"))
    places = {"output": tmp_path / "boards", "cache_dir": tmp_path / "cache"}
    vlbench.evaluate("mean-colour", "few_shot_colours", include_path=[source], **places)
    before = {f: f.read_bytes() for f in tmp_path.rglob("*") if f.suffix in {".pt", ".json"}}

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device"):
        vlbench.evaluate("mean-colour", "b", include_path=[source], **places)
    assert {f: f.read_bytes() for f in before} == before
    assert not list(tmp_path.rglob(".part-*"))
