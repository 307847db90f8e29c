"""Where memory does not suffice, a row's reason names the options to set."""

import pytest
from runs import evaluate
from sources import write

# More bytes than any machine addresses: PyTorch says on a CPU what it says of a full one.
ADAPTER = """\
import torch
from vlbench.errors import WeightsError
from colours import MeanColour

class Huge(MeanColour):
    def encode_images(self, pixels):
        return torch.empty(2**47)

class Sized(Huge):
    def __init__(self, *, device, dtype=torch.float32, max_pixels: int = 0):
        super().__init__(device=device)

class OnGpu(MeanColour):
    def encode_images(self, pixels):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

class Loading(MeanColour):
    def __init__(self, *, device, dtype=torch.float32):
        try:
            raise MemoryError
        except MemoryError as error:
            raise WeightsError("w.pt cannot be read") from error

class Other(MeanColour):
    def encode_images(self, pixels):
        raise RuntimeError("no memory of that")
"""
WAYS = "; for less memory, try --batch-size below 32 or --dtype bfloat16"


@pytest.fixture
def reason(source):
    write(source / "model_adapters" / "huge.py", ADAPTER)

    def run(name, **options):
        file = source / "model_adapters" / "huge.py"
        (result,) = evaluate(source, f"{file}:{name}", **options)
        assert result.status == "failed"
        return result.reason

    return run


@pytest.mark.parametrize("name", ["Huge", "OnGpu", "Loading"])
def test_the_options_that_take_less_memory_are_named(reason, name):
    assert reason(name).endswith(WAYS)


def test_max_pixels_are_named_where_the_adapter_has_them(reason):
    assert reason("Sized").endswith(f"{WAYS} or --model-args max_pixels=N")


def test_an_option_that_is_used_up_is_not_named(reason):
    assert reason("Huge", dtype="bfloat16").endswith("; for less memory, try --batch-size below 32")
    assert reason("Huge", batch_size=1).endswith("; for less memory, try --dtype bfloat16")
    assert reason("Huge", batch_size=1, dtype="float16").endswith("; it needs a larger machine")


def test_another_error_names_none(reason):
    assert "for less memory" not in reason("Other")
