import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vlbench.engine import devices


def test_a_gpu_is_asked_for_whole_float32_and_the_same_numbers_again(monkeypatch):
    cudnn, cublas = torch.backends.cudnn, torch.backends.cuda.matmul
    monkeypatch.setattr(cudnn, "allow_tf32", True)
    monkeypatch.setattr(cudnn, "deterministic", False)
    cublas.allow_tf32 = True
    devices.set_up(torch.device("cuda"))
    assert (cudnn.allow_tf32, cublas.allow_tf32, cudnn.deterministic) == (False, False, True)


PEAKS = """
import sys, torch
from vlbench.engine.devices import peak_memory_mb
cpu = torch.device("cpu")
first = peak_memory_mb(cpu)
bytearray(150 * 2**20).count(1)
print(first, peak_memory_mb(cpu))
"""


def test_the_peak_of_memory_is_of_this_process_and_counts_what_was_given_back():
    large = bytearray(b"1") * (700 * 2**20)
    command = [sys.executable, "-c", PEAKS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    del large
    first, last = map(float, done.stdout.split())
    assert first < 600
    assert 100 < last - first < 200


@pytest.mark.parametrize(("platform", "unit"), [("darwin", 2**20), ("freebsd14", 1024)])
def test_without_linux_the_peak_is_what_the_system_says_in_its_own_unit(
    monkeypatch, platform, unit
):
    monkeypatch.setattr(devices, "STATUS", Path("/nowhere"))
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(
        devices.resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=70 * unit)
    )
    assert devices.peak_memory_mb(torch.device("cpu")) == 70


def test_a_cpu_is_set_up_wherever_the_c_library_is_another(monkeypatch):
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    devices.set_up(torch.device("cpu"))
