import torch

from vlbench.metrics.features import all_equal, all_parallel


def test_rows_that_differ_by_rounding_are_equal():
    rows = torch.tensor([[100.0, 0.0], [100.00005, 0.00005]])
    assert all_equal(rows)
    assert not all_equal(rows * torch.tensor([[1.0], [1.00001]]))


def test_one_row_is_not_equal_to_any_other():
    assert not all_equal(torch.ones(1, 3))


def test_rows_of_another_length_or_sign_are_parallel_but_not_equal():
    rows = torch.tensor([[1.0, 2.0], [2.0, 4.0], [-0.5, -1.0]])
    assert all_parallel(rows)
    assert not all_equal(rows)


def test_rows_that_differ_in_direction_by_rounding_are_parallel():
    noise = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    signs = torch.tensor([1.0, -1.0] * 25)[:, None]
    assert all_parallel(signs * (1 + 1e-6 * noise))
    assert not all_parallel(signs * (1 + 1e-2 * noise))


def test_rows_of_zeros_are_equal_and_parallel():
    assert all_equal(torch.zeros(3, 2))
    assert all_parallel(torch.zeros(3, 2))


def test_a_row_of_zeros_is_parallel_to_no_other():
    assert not all_parallel(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
