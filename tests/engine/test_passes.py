import inspect
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch
from fakes import ConstantModel, labelled_images
from PIL import Image
from torchvision.transforms.functional import to_tensor

from vlbench.data.records import value_column
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.passes import Apply, Encode, LoadingError, stack
from vlbench.errors import SpecError

CPU = ComputeSettings(torch.device("cpu"))
IMAGES = labelled_images(3).splits["train"]["image"]


def test_batches_come_in_the_order_asked_with_their_rows():
    passed = list(Encode(ConstantModel().encode_images, IMAGES, CPU)([[2, 0], [1]]))
    assert [rows for rows, _ in passed] == [[2, 0], [1]]
    assert [len(values) for _, values in passed] == [2, 1]


class Projection(ConstantModel):
    weight = torch.rand(3 * 8 * 8, 50, generator=torch.Generator().manual_seed(0))

    def preprocess(self, image):
        return to_tensor(image.resize((8, 8)))

    def encode_images(self, pixels):
        return pixels.flatten(1) @ self.weight


def test_an_image_gives_the_same_alone_and_among_others_but_for_rounding():
    images = labelled_images(8).splits["train"]["image"]
    rows = list(range(len(images)))
    encode = Encode(Projection().encode_images, images, CPU)
    ((_, together),) = encode([rows])
    alone = torch.stack([values[0] for _, values in encode([[row] for row in rows])])
    gaps = (alone - torch.stack(list(together))).norm(dim=1)
    assert (gaps <= 1e-4 * alone.norm(dim=1)).all()


@pytest.mark.parametrize(
    ("change", "kind"), [(lambda x: x.numpy(), r"numpy\.ndarray"), (lambda x: (x,), "tuple")]
)
def test_features_that_are_no_tensor_are_named_with_the_way_out(change, kind):
    given = {"encode_images": lambda _, pixels: change(pixels.flatten(1))}
    model = type("Other", (ConstantModel,), given)()
    with pytest.raises(ValueError, match=rf"returned a {kind}; return a torch\.Tensor \[N, D\]"):
        list(Encode(model.encode_images, IMAGES, CPU)([[0, 1]]))


def test_torchs_global_generator_stays_as_it_was():
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    list(Encode(ConstantModel().encode_images, IMAGES, CPU)([[0]]))
    list(Apply(list, [IMAGES], CPU)([[0]]))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_function_gets_one_list_per_column_and_nothing_is_recorded_for_gradients():
    seen = []
    columns = [value_column([1, 2, 3]), value_column(["a", "b", "c"], "text")]
    list(Apply(lambda *values: seen.append(values) or values[0], columns, CPU)([[0, 2]]))
    assert seen == [([1, 3], ["a", "c"])]
    (_, outputs), *_ = Apply(lambda n: [torch.is_grad_enabled() for _ in n], [IMAGES], CPU)([[0]])
    assert outputs == [False]


@pytest.mark.parametrize(("sizes", "stacked"), [((2, 2), True), ((2, 3), False)])
def test_only_tensors_of_one_shape_become_one(sizes, stacked):
    found = stack([torch.zeros(size) for size in sizes])
    assert isinstance(found, torch.Tensor) == stacked


class Blind(ConstantModel):
    def preprocess(self, image):
        return {}[image.mode]  # the line of the error


class Locked(ConstantModel):
    def preprocess(self, image):
        raise UnsendableError(threading.Lock())


class UnsendableError(Exception):
    """What no process can send to another."""


class Flips(ConstantModel):
    """Augments what it should only resize."""

    def preprocess(self, image):
        self.turn = not getattr(self, "turn", False)
        return super().preprocess(image).flip(2) if self.turn else super().preprocess(image)


@pytest.mark.parametrize("workers", [0, 1])
def test_pixels_that_differ_from_one_look_to_the_next_are_refused(workers):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), np.uint8))
    column = replace(IMAGES, stored=[noise] * 3)
    encode = Encode(Flips().encode_images, column, CPU._replace(workers=workers))
    why = "preprocess gave different pixels for the same image; draw nothing"
    with pytest.raises(SpecError, match=why):
        list(encode([[0, 1]]))


@pytest.mark.parametrize(
    ("model", "error"), [(Blind, "KeyError: 'RGB'"), (Locked, "UnsendableError: ")]
)
def test_an_error_in_a_worker_keeps_the_line_of_the_adapter(model, error):
    line = inspect.getsourcelines(model.preprocess)[1] + 1
    with pytest.raises(LoadingError, match=rf"^{error}.*\(test_passes\.py:{line}\)$"):
        list(Encode(model().encode_images, IMAGES, CPU._replace(workers=1))([[0]]))


def test_an_error_of_vlbench_passes_through_a_worker_as_it_is():
    bytes_ = type("Bytes", (ConstantModel,), {"preprocess": lambda *_: torch.zeros(3).byte()})
    with pytest.raises(SpecError, match=r"test_passes\.py:\d+: preprocess gave torch\.uint8 \[3\]"):
        list(Encode(bytes_().encode_images, IMAGES, CPU._replace(workers=1))([[0]]))


def test_an_error_outside_a_worker_is_raised_as_it_is():
    with pytest.raises(KeyError):
        list(Encode(Blind().encode_images, IMAGES, CPU)([[0]]))
