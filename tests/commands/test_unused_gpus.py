import shlex
import sys

import pytest
import torch
from sources import make_source

from vlbench.cli import main
from vlbench.commands.unused_gpus import unused_gpus

WORDS = ["run", "--model", "a,b", "--tasks", "few_shot", "--output", "my boards"]


@pytest.fixture(autouse=True)
def four_gpus(monkeypatch):
    for name in ("WORLD_SIZE", "ACCELERATE_MIXED_PRECISION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_of_four_gpus_three_are_unused_and_the_command_uses_all(device):
    said, _, command = unused_gpus(WORDS, device).partition(": ")
    assert said == "4 GPUs are visible, and this run uses one of them; to use all"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "4", "-m"]
    assert shlex.split(command) == [*launch, "vlbench", *WORDS]


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_who_names_a_device_is_told_nothing(device):
    assert unused_gpus(WORDS, device) == ""


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "ACCELERATE_MIXED_PRECISION"])
def test_a_launched_run_is_told_nothing(monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    assert unused_gpus(WORDS, "auto") == ""


def test_one_gpu_as_where_the_others_are_hidden_is_not_unused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert unused_gpus(WORDS, "auto") == ""


def test_gpus_that_cannot_be_used_do_not_count(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert unused_gpus(WORDS, "auto") == ""


def test_a_run_says_so_once_and_what_it_says_runs(monkeypatch, tmp_path, capsys):
    device = torch.device("cpu")
    monkeypatch.setattr("vlbench.planning.options.local_device", lambda _: device)
    words = ["--tasks", "few_shot_colours", "--include-path", str(make_source(tmp_path / "ours"))]
    words += ["--output", str(tmp_path / "boards"), "--dry-run"]
    assert main(["--model", "mean-colour", *words]) == 0
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "GPUs" in one]
    command = shlex.split(line.partition(": ")[2])
    assert main(command[command.index("vlbench") + 1 :]) == 0


def test_a_run_that_computes_nothing_says_nothing(monkeypatch, tmp_path, capsys):
    device = torch.device("cpu")
    monkeypatch.setattr("vlbench.planning.options.local_device", lambda _: device)
    words = ["--tasks", "few_shot_colours", "--include-path", str(make_source(tmp_path / "ours"))]
    assert main(["--model", "words", *words, "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "skipped" in told
    assert "GPUs" not in told
