"""Runs that are killed, disturbed or starved of disk lose nothing that was whole."""

import functools
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
from vlbench.engine import training
from vlbench.engine.shards import SHARD
from vlbench.errors import OutputError
from vlbench.probes.generalization.linear import LinearProbeTraining

# Forked, so that twenty runs need not import torch twenty times.
fork = multiprocessing.get_context("fork")

DIGITS = ["few_shot_digits", "clustering_digits", "transfer_digits"]
COLOURS = ["few_shot_colours", "transfer_colours"]
TRANSFER = TASK.replace("few_shot", "transfer").replace("at: {shots: 1}", "at: {}")
TRANSFER = TRANSFER.replace("{shots: [1], trials: 2}", "{training: {epochs: 2, batch_size: 60}}")

ROOT = Path(__file__).resolve().parents[2]


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


def start(folder, tasks, **options):
    """Start a run in a process of its own."""
    work = {"output": folder / "boards", "cache_dir": folder / "cache"} | options
    run = fork.Process(target=vlbench.evaluate, args=(Slow(folder / "log"), tasks), kwargs=work)
    run.start()
    return run


def finish(folder, tasks, **options):
    run = start(folder, tasks, **options)
    run.join()
    assert run.exitcode == 0


def boards(folder, tasks):
    """Return all boards without what may differ from one run to the next."""
    found = {name: json.loads((folder / "boards" / f"{name}.json").read_text()) for name in tasks}
    for board in found.values():
        board["rows"] = [row | {"run": {}} for row in board["rows"]]
    return found


def passed(folder):
    """Return how many images the model saw."""
    return sum(int(line) for line in (folder / "log").read_text().split())


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """The source of two small tasks, of 300 images for training and 300 for testing."""
    folder = tmp_path_factory.mktemp("colours") / "ours"
    source = make_source(folder, few_shot_colours=TASK, transfer_colours=TRANSFER)
    make_images(source / "images", count=100)
    return source


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, colours):
    """The folder of a run that nothing happened to.

    It runs in this process, whose forks then have the libraries and know the code's digests.
    """
    folder = tmp_path_factory.mktemp("whole")
    places = {"output": folder / "boards", "cache_dir": folder / "cache"}
    vlbench.evaluate(Slow(folder / "log"), COLOURS, include_path=[colours], **places)
    return folder


def dies_at(function, calls):
    """Return a function during whose n-th call the process is killed."""
    left = iter(range(calls, 0, -1))

    @functools.wraps(function)  # features are stored under its name
    def die(*arguments):
        if next(left) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)

    return die


@pytest.fixture
def killed_in(tmp_path, monkeypatch, colours):
    """Run in a process that is killed during the n-th call of a function."""

    def kill(owner, name, calls):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, dies_at(getattr(owner, name), calls))
            killed = start(tmp_path, COLOURS, include_path=[colours])
            killed.join()
        assert killed.exitcode == -signal.SIGKILL

    return kill


def test_a_run_killed_in_features_loses_under_a_shard(tmp_path, colours, undisturbed, killed_in):
    killed_in(Slow, "encode_images", 22)
    finish(tmp_path, COLOURS, include_path=[colours])
    assert boards(tmp_path, COLOURS) == boards(undisturbed, COLOURS)
    assert 0 < passed(tmp_path) - passed(undisturbed) < SHARD


@pytest.mark.parametrize(("seconds", "checkpoints"), [(30, 0), (0, 1)])
def test_a_run_killed_in_a_training_goes_on_from_its_last_checkpoint(
    tmp_path, monkeypatch, colours, undisturbed, killed_in, seconds, checkpoints
):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", seconds)
    killed_in(LinearProbeTraining, "step", 8)
    assert len([*tmp_path.glob("cache/**/checkpoint.pt")]) == checkpoints
    finish(tmp_path, COLOURS, include_path=[colours])
    assert boards(tmp_path, COLOURS) == boards(undisturbed, COLOURS)
    assert passed(tmp_path) == passed(undisturbed)


@pytest.mark.parametrize(
    "writes", [7, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 3, 6, 10, 13))]
)
def test_a_killed_write_leaves_whole_files(tmp_path, colours, undisturbed, killed_in, writes):
    killed_in(os, "fchmod", writes)
    for file in (tmp_path / "boards").glob("*.json"):
        json.loads(file.read_text())
    finish(tmp_path, COLOURS, include_path=[colours])
    assert boards(tmp_path, COLOURS) == boards(undisturbed, COLOURS)


@pytest.mark.nightly
def test_a_run_killed_at_twenty_random_moments_ends_as_an_undisturbed_one(tmp_path):
    finish(tmp_path / "whole", DIGITS)
    for delay in np.random.default_rng(0).uniform(0.1, 1.2, 20):
        run = start(tmp_path, DIGITS)
        run.join(delay)
        run.kill()
        run.join()
    finish(tmp_path, DIGITS)
    assert boards(tmp_path, DIGITS) == boards(tmp_path / "whole", DIGITS)
    assert 0 <= passed(tmp_path) - passed(tmp_path / "whole") <= 20 * SHARD


@pytest.mark.usefixtures("undisturbed")  # which the forks need not prepare again
def test_two_runs_at_once_on_one_store_and_one_folder_complete_all_boards(tmp_path, colours):
    runs = [start(tmp_path, COLOURS, name=name, include_path=[colours]) for name in ("one", "two")]
    for run in runs:
        run.join()
    assert [run.exitcode for run in runs] == [0, 0]
    for board in boards(tmp_path, COLOURS).values():
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
