import torch

from vlbench.engine.settings import ComputeSettings, loader_workers

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_without_a_measured_batch_size_the_usual_one_holds():
    assert ComputeSettings(CPU, batch_size=None).rows_per_batch == 32
    assert ComputeSettings(CPU, batch_size=7).rows_per_batch == 7


def test_a_gpu_has_loader_workers_and_a_cpu_none(monkeypatch):
    for cores, workers in ((1, 1), (4, 3), (64, 8)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, n=cores: range(n))
        assert (loader_workers(CPU), loader_workers(CUDA)) == (0, workers)
