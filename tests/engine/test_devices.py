from types import SimpleNamespace

import psutil
import pytest
import torch

from vlbench.engine import devices
from vlbench.engine.devices import ComputeSettings, loader_workers


def test_a_gpu_is_asked_for_whole_float32_and_the_same_numbers_again(monkeypatch):
    cudnn, cublas = torch.backends.cudnn, torch.backends.cuda.matmul
    monkeypatch.setattr(cudnn, "allow_tf32", True)
    monkeypatch.setattr(cudnn, "deterministic", False)
    cublas.allow_tf32 = True
    devices.set_up(torch.device("cuda"))
    assert (cudnn.allow_tf32, cublas.allow_tf32, cudnn.deterministic) == (False, False, True)


def test_the_peak_of_memory_is_this_process_own_and_not_that_of_what_started_it(
    monkeypatch, tmp_path
):
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmPeak:\t 9000000 kB\nVmHWM:\t   71680 kB\nVmRSS:\t 1 kB\n")
    monkeypatch.setattr(devices, "STATUS", status)
    assert devices.peak_memory_mb(torch.device("cpu")) == 70


def test_the_peak_of_memory_is_no_less_than_what_is_in_use():
    in_use = psutil.Process().memory_info().rss
    assert devices.peak_memory_mb(torch.device("cpu")) >= in_use / 2**20 - 1


@pytest.mark.parametrize(
    ("platform", "unit"), [("darwin", 2**20), ("freebsd14", 1024), ("linux", 1024)]
)
def test_where_the_kernel_tells_no_peak_it_is_what_the_system_says_in_its_own_unit(
    monkeypatch, tmp_path, platform, unit
):
    status = tmp_path / "status"
    if platform == "linux":
        status.write_text("Name:\tpython\nVmRSS:\t 1 kB\n")
    monkeypatch.setattr(devices, "STATUS", status)
    monkeypatch.setattr("sys.platform", platform)
    used = SimpleNamespace(ru_maxrss=70 * unit)
    monkeypatch.setattr(devices.resource, "getrusage", lambda _: used)
    assert devices.peak_memory_mb(torch.device("cpu")) == 70


def test_a_cpu_is_set_up_wherever_the_c_library_is_another(monkeypatch):
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    devices.set_up(torch.device("cpu"))


CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_without_a_measured_batch_size_the_usual_one_holds():
    assert ComputeSettings(CPU, batch_size=None).rows_per_batch == 32
    assert ComputeSettings(CPU, batch_size=7).rows_per_batch == 7


def test_a_gpu_has_loader_workers_and_a_cpu_none(monkeypatch):
    for cores, workers in ((1, 1), (4, 3), (64, 8)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, n=cores: range(n))
        assert (loader_workers(CPU), loader_workers(CUDA)) == (0, workers)
