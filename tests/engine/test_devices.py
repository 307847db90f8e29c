import torch

from vlbench.engine import devices


def test_a_gpu_is_asked_for_whole_float32_and_the_same_numbers_again(monkeypatch):
    cudnn, cublas = torch.backends.cudnn, torch.backends.cuda.matmul
    monkeypatch.setattr(cudnn, "allow_tf32", True)
    monkeypatch.setattr(cudnn, "deterministic", False)
    cublas.allow_tf32 = True
    devices.set_up(torch.device("cuda"))
    assert (cudnn.allow_tf32, cublas.allow_tf32, cudnn.deterministic) == (False, False, True)


def test_a_cpu_is_set_up_wherever_the_c_library_is_another(monkeypatch):
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    devices.set_up(torch.device("cpu"))
