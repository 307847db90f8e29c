"""Runs of several processes that PyTorch's launcher starts. Processes end as real ones do."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from pair_commands import run_command
from sources import make_source, write

from vlbench.cli import main
from vlbench.engine.launch import OF_LAUNCHERS, OF_SLURM, count_processes
from vlbench.errors import INTERRUPTED, UnknownNameError

# What a model does on the second process, as it loads; the file says who did it.
LOADS = """
import os, pathlib, signal, sys, time, torch
from torchvision.transforms.functional import to_tensor


class Loads:
    def __init__(self, *, device, does: str = "", file: str = ""):
        rank = os.environ.get("RANK", "0")
        if file:
            pathlib.Path(f"{file}.{rank}").write_text(str(os.getpid()))
        if rank == "1" and does != "first":
            {"waits": lambda: time.sleep(300), "dies": lambda: os.kill(os.getpid(), signal.SIGKILL),
             "leaves": lambda: (print("the second broke", file=sys.stderr), os._exit(3)),
             "fails": lambda: open("/nowhere/at/all")}[does]()

    def preprocess(self, image):
        return to_tensor(image)

    def encode_images(self, pixels):
        return pixels.mean((2, 3))
"""

# What a shell runs in the background ignores interrupts, and so would what it starts.
COMMAND = """
import signal, sys
from vlbench.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""

ENDED = (
    "process {} of this run has ended with exit code {}. Finished work is saved; "
    "rerun the command to resume."
)

LINE = 'NAME: {adapter: "loads:Loads", params: {does: "NAME", file: "FILE"}}\n'


@pytest.fixture
def folder(tmp_path):
    source = make_source(tmp_path / "ours")
    write(source / "model_adapters" / "loads.py", LOADS)
    files = {name: tmp_path / name for name in ("first", "waits", "dies")}
    files |= dict.fromkeys(("leaves", "fails"), "")
    lines = [LINE.replace("NAME", name).replace("FILE", str(at)) for name, at in files.items()]
    write(source / "model_adapters" / "models.yaml", "".join(lines))
    return tmp_path


def words_of(folder, models):
    places = ["--include-path", str(folder / "ours"), "--output", str(folder / "boards")]
    words = ["--model", models, "--tasks", "few_shot_colours", "--device", "cpu", "--no-cache"]
    return [*words, *places]


def start(folder, models):
    command = [sys.executable, "-c", COMMAND, *words_of(folder, models), "--processes", "2"]
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE) | {"text": True}
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, **pipes, env=environment, process_group=0)


def finish(process):
    """Return exit code, standard output and standard error."""
    try:
        told = process.communicate(timeout=120)
    finally:
        process.kill()
    return process.returncode, *told


def wait_until(holds, seconds=100):
    """Wait until what a process does holds."""
    for _ in range(10 * seconds):
        if holds():
            return
        time.sleep(0.1)
    pytest.fail("the process does not load, or does not end")


def has_started(file):
    """Return whether the process loads that writes its number into a file."""
    return file.is_file() and file.read_text()


def has_ended(file):
    """Return whether the process has ended that wrote its number into a file."""
    try:
        os.kill(int(file.read_text()), 0)
    except ProcessLookupError:
        return True
    return False


def rows(folder):
    board = json.loads((folder / "boards" / "few_shot_colours.json").read_text())
    return {row["model"]: row for row in board["rows"]}


def test_two_processes_print_once_and_write_what_one_writes(folder, pair):
    words = [*words_of(folder, "first"), "--overwrite", "--processes"]
    ((code, out, errors),) = pair(run_command, [*words, "2"], size=1)
    assert (code, errors) == (0, "")
    assert out.count("plan: 1 run") == out.count("first · few_shot_colours: ok in") == 1
    two = rows(folder)["first"]
    assert two.pop("run")["processes"] == 2
    ((code, *_),) = pair(run_command, [*words, "1"], size=1)
    assert code == 0
    one = rows(folder)["first"]
    assert one.pop("run")["processes"] == 1
    assert one == two


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("stop", "send"),
    [
        (signal.SIGINT, os.kill),
        (signal.SIGINT, os.killpg),
        (signal.SIGTERM, os.kill),
        (signal.SIGKILL, os.kill),
    ],
    ids=["kill -INT", "Ctrl-C", "kill", "kill -9"],
)
def test_all_processes_end_with_their_launcher_however_that_ends(folder, stop, send):
    process = start(folder, "waits")
    for rank in (0, 1):
        wait_until(lambda r=rank: has_started(folder / f"waits.{r}"))
    asked = time.monotonic()
    send(process.pid, stop)
    code, _, errors = finish(process)
    assert time.monotonic() - asked < 30
    for rank in (0, 1):
        wait_until(lambda r=rank: has_ended(folder / f"waits.{r}"), 30)
    interrupted = stop is not signal.SIGKILL
    assert code == (130 if interrupted else -stop)
    assert errors == (f"vlbench: {INTERRUPTED}\n" if interrupted else "")


def test_a_process_that_is_killed_ends_the_run_which_says_so(folder, pair):
    words = [*words_of(folder, "first,dies"), "--processes", "2"]
    ((code, _, errors),) = pair(run_command, words, size=1)
    assert code == 1
    assert errors == f"vlbench: {ENDED.format(1, -signal.SIGKILL)}\n"
    assert {name: one["status"] for name, one in rows(folder).items()} == {"first": "ok"}


@pytest.mark.nightly
def test_where_the_first_process_is_killed_all_end_and_the_run_says_so(folder):
    process = start(folder, "waits")
    for rank in (0, 1):
        wait_until(lambda r=rank: has_started(folder / f"waits.{r}"))
    os.kill(int((folder / "waits.0").read_text()), signal.SIGKILL)
    code, _, errors = finish(process)
    assert (code, errors) == (1, f"vlbench: {ENDED.format(0, -signal.SIGKILL)}\n")
    wait_until(lambda: has_ended(folder / "waits.1"), 30)


@pytest.mark.nightly
def test_what_a_process_says_as_it_ends_alone_is_told_once(folder):
    code, _, errors = finish(start(folder, "leaves"))
    assert code == 1
    told = ["vlbench: process 1: the second broke", f"vlbench: {ENDED.format(1, 3)}"]
    assert errors.splitlines() == told


@pytest.mark.nightly
def test_an_error_of_one_process_is_told_once_and_the_exit_code_is_that_of_one(folder):
    code, _, errors = finish(start(folder, "fails"))
    assert code == 1
    assert errors.count("No such file") == 1


@pytest.fixture
def starts_none(monkeypatch):
    monkeypatch.setattr("vlbench.engine.launch.launch", lambda *_: pytest.fail("processes started"))


@pytest.mark.usefixtures("starts_none")
def test_a_dry_run_and_one_without_work_start_nothing(tmp_path, capsys):
    source = str(make_source(tmp_path / "ours"))
    words = ["--tasks", "few_shot_colours", "--include-path", source, "--processes", "2"]
    words += ["--output", str(tmp_path / "boards"), "--device", "cpu"]
    assert main(["--model", "mean-colour", *words, "--dry-run"]) == 0
    assert main(["--model", "words", *words]) == 1  # skipped
    assert main(["--model", "no-such-model", *words]) == 2
    assert "nothing ran" in capsys.readouterr().err


@pytest.mark.usefixtures("starts_none")
def test_a_file_of_options_may_set_processes(tmp_path, capsys):
    file = write(tmp_path / "run.yaml", "processes: 0\n")
    with pytest.raises(SystemExit):
        main(["--config", str(file), "--model", "raw-pixels", "--tasks", "few_shot_digits"])
    assert "--processes: must be a whole number from 1" in capsys.readouterr().err


@pytest.fixture
def four_gpus(monkeypatch):
    for name in (*OF_LAUNCHERS, OF_SLURM):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("asked", "device", "count"),
    [
        *((None, "auto", 4), (None, "cuda", 4), (None, "cuda:1", 1), (None, "cpu", 1)),
        *((1, "auto", 1), (2, "auto", 2), (6, "cpu", 6)),
    ],
)
def test_there_is_one_process_for_each_visible_gpu_unless_somebody_says_otherwise(
    asked, device, count
):
    assert count_processes(asked, device) == count


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("asked", "device", "why"),
    [
        (5, "auto", "the number of visible GPUs is 4"),
        (2, "cuda:1", "--device cuda:1 is one device"),
    ],
)
def test_more_processes_than_devices_are_refused(asked, device, why):
    with pytest.raises(UnknownNameError, match=f"--processes is {asked}, but {why}"):
        count_processes(asked, device)


@pytest.mark.usefixtures("four_gpus")
def test_gpus_that_cannot_be_used_do_not_count(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert count_processes(None, "auto") == 1
    assert count_processes(8, "auto") == 8


@pytest.mark.usefixtures("four_gpus")
@pytest.mark.parametrize(
    ("variable", "value", "count"),
    [*((name, "1", 1) for name in OF_LAUNCHERS), (OF_SLURM, "4", 1), (OF_SLURM, "1", 4)],
)
def test_what_a_launcher_started_starts_nothing(monkeypatch, variable, value, count):
    monkeypatch.setenv(variable, value)
    assert count_processes(None, "auto") == count


@pytest.mark.usefixtures("four_gpus")
def test_a_launcher_and_the_option_may_not_disagree(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert count_processes(2, "auto") == count_processes(None, "auto") == 2
    with pytest.raises(UnknownNameError, match="is 4, but a launcher has started 2"):
        count_processes(4, "auto")
