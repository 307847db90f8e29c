import datetime as dt

import pytest
import torch
from torch import nn

from vlbench.adapter_kit.weights import fill, is_torchscript, read_state_dict
from vlbench.errors import WeightsError


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
def test_a_file_of_something_else_cannot_be_read(tmp_path, name):
    (tmp_path / name).write_text("hello")
    with pytest.raises(WeightsError, match=f"{name} cannot be read as weights"):
        read_state_dict(tmp_path / name)


def test_pickled_objects_are_refused(tmp_path):
    torch.save({"weight": torch.ones(1), "when": dt.date(2021, 1, 1)}, tmp_path / "w.pt")
    with pytest.raises(WeightsError, match="cannot be read as weights"):
        read_state_dict(tmp_path / "w.pt")


@pytest.mark.parametrize("content", [[1, 2], {"state_dict": [1, 2]}])
def test_a_list_is_no_state_dict(tmp_path, content):
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(WeightsError, match="holds a list, not a state dict"):
        read_state_dict(tmp_path / "w.pt")


def test_a_prefix_of_all_keys_is_dropped(tmp_path):
    torch.save(
        {"state_dict": {"module.a": torch.ones(1), "module.b.c": torch.ones(1)}}, tmp_path / "w.pt"
    )
    assert list(read_state_dict(tmp_path / "w.pt")) == ["a", "b.c"]


def test_a_prefix_of_some_keys_is_kept(tmp_path):
    torch.save({"module.a": torch.ones(1), "b": torch.ones(1)}, tmp_path / "w.pt")
    assert list(read_state_dict(tmp_path / "w.pt")) == ["module.a", "b"]


def test_a_file_of_torch_is_no_archive_of_torchscript(tmp_path):
    torch.save({"a": torch.ones(1)}, tmp_path / "w.pt")
    (tmp_path / "text.pt").write_text("hello")
    assert not is_torchscript(tmp_path / "w.pt")
    assert not is_torchscript(tmp_path / "text.pt")


def test_what_is_no_tensor_does_not_fit(tmp_path):
    state = {"weight": torch.ones(2, 1), "bias": 3.0}
    with pytest.raises(WeightsError, match=r"does not fit Linear; 1 of another shape: bias"):
        fill(nn.Linear(1, 2), state, tmp_path / "w.pt")


def test_of_many_misfits_the_first_ten_are_listed(tmp_path):
    state = {f"surplus{i}": torch.ones(1) for i in range(12)}
    with pytest.raises(WeightsError, match=r"12 unexpected: surplus0, .*, surplus9$"):
        fill(nn.Identity(), state, tmp_path / "w.pt")


def test_half_precision_is_filled_in_exactly(tmp_path):
    half = torch.tensor([[0.1], [0.3]]).half()
    module = nn.Linear(1, 2, bias=False)
    fill(module, {"weight": half}, tmp_path / "w.pt")
    assert module.weight.dtype == torch.float32
    assert torch.equal(module.weight, half.float())
