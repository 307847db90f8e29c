"""What only a GPU shows. Most tests also run on the CPU, which shows that they can be passed."""

import pytest
import torch


def device_of(name):
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU that PyTorch can use is here")
    return torch.device(name)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return device_of(request.param)


@pytest.fixture(params=[pytest.param("cuda", marks=pytest.mark.gpu)])
def gpu(request):
    return device_of(request.param)
