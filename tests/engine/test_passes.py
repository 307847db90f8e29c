import pytest
import torch
from fakes import ConstantModel, labelled_images

from vlbench.data.records import value_column
from vlbench.engine.passes import Apply, Encode, stack
from vlbench.engine.settings import ComputeSettings

CPU = ComputeSettings(torch.device("cpu"))
IMAGES = labelled_images(3).splits["train"]["image"]


def test_batches_come_in_the_order_asked_with_their_rows():
    passed = list(Encode(ConstantModel().encode_images, IMAGES, CPU)([[2, 0], [1]]))
    assert [rows for rows, _ in passed] == [[2, 0], [1]]
    assert [len(values) for _, values in passed] == [2, 1]


def test_torchs_global_generator_stays_as_it_was():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    list(Encode(ConstantModel().encode_images, IMAGES, CPU)([[0]]))
    list(Apply(list, [IMAGES], CPU)([[0]]))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_function_gets_one_list_per_column():
    seen = []
    columns = [value_column([1, 2, 3]), value_column(["a", "b", "c"], "text")]
    list(Apply(lambda *values: seen.append(values) or values[0], columns, CPU)([[0, 2]]))
    assert seen == [([1, 3], ["a", "c"])]


def test_nothing_is_recorded_for_gradients():
    (_, outputs), *_ = Apply(lambda n: [torch.is_grad_enabled() for _ in n], [IMAGES], CPU)([[0]])
    assert outputs == [False]


@pytest.mark.parametrize(("sizes", "stacked"), [((2, 2), True), ((2, 3), False)])
def test_only_tensors_of_one_shape_become_one(sizes, stacked):
    found = stack([torch.zeros(size) for size in sizes])
    assert isinstance(found, torch.Tensor) == stacked
