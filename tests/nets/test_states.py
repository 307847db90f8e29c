import pytest
import torch

from vlbench.nets.states import on_cpu


def test_all_tensors_of_a_state_are_on_the_cpu_and_the_rest_is_as_it_was():
    kept = torch.ones(2)
    found = on_cpu({"adam": {0: {"step": kept}}, "groups": [{"lr": 0.1, "betas": (0.9, 0.99)}]})
    assert found["adam"][0]["step"] is kept
    assert found["groups"] == [{"lr": 0.1, "betas": (0.9, 0.99)}]


def test_a_tensor_elsewhere_is_copied():
    # One without data cannot be, and says so.
    with pytest.raises(NotImplementedError, match="meta"):
        on_cpu([torch.zeros(2, device="meta")])
