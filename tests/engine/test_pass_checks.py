import inspect

import pytest
import torch
from honest import Honest
from torch import Tensor

from vlbench.capabilities import Picture, Regions, TokenVectors
from vlbench.engine.pass_checks import (
    REPEATED,
    SOME,
    Repeating,
    difference,
    pixels_of,
    tensors,
    tolerance,
)
from vlbench.errors import SpecError

PIXELS = torch.rand(32, 3, 4, 4, generator=torch.Generator().manual_seed(0))


class Flat:
    """Keeps every promise, and counts what passes through it."""

    passed = 0

    def encode_images(self, pixels: Tensor) -> Tensor:
        self.passed += len(pixels)
        return pixels.flatten(1)


def test_some_of_the_first_pixels_are_passed_again_also_with_batch_4_16_and_so_on():
    model = Flat()
    encode = Repeating(model.encode_images)
    assert torch.equal(encode(PIXELS), PIXELS.flatten(1))
    assert model.passed == 32 + REPEATED
    for _ in range(16):
        encode(PIXELS)
    assert model.passed == 17 * 32 + REPEATED + 2 * 2 * SOME


def test_some_of_the_first_texts_are_passed_again_also_with_batch_2_4_8_and_so_on():
    passed = []

    def encode_texts(texts):
        passed.extend(texts)
        return torch.tensor([[float(len(text))] for text in texts])

    encode = Repeating(encode_texts)
    for _ in range(9):
        encode(["some text"] * 32)
    assert len(passed) == 9 * 32 + REPEATED + 1 + 3 * 2 * REPEATED


@pytest.mark.parametrize(("count", "again"), [(0, 0), (1, 1), (2, 3), (4, 5), (5, 4)])
def test_a_small_batch_is_passed_again_as_far_as_it_goes(count, again):
    model = Flat()
    Repeating(model.encode_images)(PIXELS[:count])
    assert model.passed == count + again


def test_after_a_batch_of_one_a_larger_one_is_passed_again_too():
    model = Flat()
    encode = Repeating(model.encode_images)
    for count in (1, 1, 32, 32):
        encode(PIXELS[:count])
    assert model.passed == 66 + 1 + REPEATED + 2 * SOME


def test_a_method_that_changes_later_is_found_by_its_first_examples():
    class Drifts(Flat):
        def encode_images(self, pixels: Tensor) -> Tensor:
            return super().encode_images(pixels) + (self.passed > 10 * 32)

    encode = Repeating(Drifts().encode_images)
    for _ in range(15):
        encode(PIXELS)
    why = "for examples of its first batch, put among others after 16 batches"
    with pytest.raises(SpecError, match=why):
        encode(PIXELS)


class Padded:
    """Lets the longest text of a batch into the vector of each."""

    def encode_texts(self, texts):
        longest = max(map(len, texts))
        return torch.tensor([[float(len(text)), longest] for text in texts])


def test_the_shortest_text_of_the_first_batch_is_passed_alone():
    texts = ["aa", "bbb", "ccc", "ddd", "e"]
    why = r"1 of its examples alone: .*does not mask padding, pass --batch-size 1"
    with pytest.raises(SpecError, match=why):
        Repeating(Padded().encode_texts)(texts)
    encode = Repeating(Padded().encode_texts)
    for text in texts:
        encode([text])


def test_texts_whose_vectors_depend_on_the_longest_beside_them_are_found():
    encode = Repeating(Padded().encode_texts)
    encode(["aa", "bb", "cc", "dd", "ee"])
    why = r"Padded\.encode_texts gives different outputs for examples of"
    with pytest.raises(SpecError, match=why):
        encode(["eee", "fff", "ggg", "hhh", "iii"])


def test_batches_that_cannot_be_one_are_passed_apart():
    model = Flat()
    encode = Repeating(model.encode_images)
    for pixels in (PIXELS, PIXELS, PIXELS, PIXELS[:, :, :2]):
        encode(pixels)
    assert model.passed == 4 * 32 + REPEATED + SOME


def test_a_method_in_training_mode_names_itself_the_difference_and_the_way_out():
    class Normed(Flat):
        def encode_images(self, pixels: Tensor) -> Tensor:
            return torch.nn.BatchNorm1d(48)(super().encode_images(pixels))

    line = inspect.getsourcelines(Normed.encode_images)[1]
    message = (
        rf"^test_pass_checks\.py:{line}: Normed\.encode_images gives different outputs in a batch "
        r"of 32 than for 4 of its examples in reverse: values differ by [\d.]+; the largest is "
        r"[\d.]+; .*call model\.eval\(\)"
    )
    with pytest.raises(SpecError, match=message):
        Repeating(Normed().encode_images)(PIXELS)


def test_pixels_that_a_method_changes_are_named():
    class Normalises(Flat):
        def encode_images(self, pixels: Tensor) -> Tensor:
            return pixels.sub_(0.5).flatten(1).clone()

    with pytest.raises(SpecError, match=r"Normalises\.encode_images changes the pixels .* copy"):
        Repeating(Normalises().encode_images)(PIXELS)


def test_memory_may_be_used_again():
    class Reuses(Flat):
        buffer = torch.empty(32, 48)

        def encode_images(self, pixels: Tensor) -> Tensor:
            return self.buffer[: len(pixels)].copy_(pixels.flatten(1))

    assert torch.equal(Repeating(Reuses().encode_images)(PIXELS), PIXELS.flatten(1))


def test_outputs_that_are_not_finite_are_left_to_who_asks():
    class Nan(Flat):
        def encode_images(self, pixels: Tensor) -> Tensor:
            return pixels.flatten(1) * torch.nan

    assert Repeating(Nan().encode_images)(PIXELS).isnan().all()


def test_a_batch_that_loses_outputs_is_counted():
    class Loses(Flat):
        def encode_images(self, pixels: Tensor) -> Tensor:
            return pixels.flatten(1)[: 32 if len(pixels) == 32 else 1]

    with pytest.raises(SpecError, match="1 finite outputs for 4"):
        Repeating(Loses().encode_images)(PIXELS)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.float32, 1e-4), (torch.float64, 1e-4), (torch.float16, 2**-6), (torch.bfloat16, 2**-3)],
)
def test_narrow_numbers_may_be_rounded_sixteen_times(dtype, expected):
    assert tolerance(dtype) == expected


def test_numbers_are_compared_on_the_scale_of_their_batch():
    ones = torch.tensor([1.0, 0.0])
    assert difference(list(zip(ones, ones + 9e-5, strict=True)), 1e-4) == ""
    assert difference([(ones[1], ones[1] + 9e-5)], 1e-4).startswith("values differ by 9e-05")


def test_what_is_compared_of_an_output_is_its_tensor():
    picture = Picture(None, None)
    assert torch.equal(tensors("score_pairs", torch.ones(1))[0], torch.tensor(1.0))
    (weights,) = tensors("attend", Honest().attend([picture], ["a cat"]))
    assert weights.shape == (1, 2, 5, 4)


@pytest.mark.parametrize(
    ("pixels", "found"), [([0.5], "list"), (torch.zeros(3, 0, 0), r"no pixels, \[3, 0, 0\]")]
)
def test_what_are_no_pixels_is_named(pixels, found):
    message = rf"^test_pass_checks\.py:\d+: preprocess gave {found}; return"
    with pytest.raises(SpecError, match=message):
        pixels_of(lambda _: pixels, None)


def test_outputs_stay_when_the_method_uses_its_memory_again():
    memory = torch.zeros(8)

    def score_pairs(_, texts):
        return memory[: len(texts)].copy_(torch.tensor([float(len(text)) for text in texts]))

    def encode_tokens(texts):
        scores = score_pairs(None, texts)
        return [TokenVectors([(0, 1)], scores[i, None, None]) for i in range(len(texts))]

    score, encode = Repeating(score_pairs), Repeating(encode_tokens)
    first, tokens = score([0, 0], ["a", "bb"]), encode(["a", "bb"])
    score([0, 0], ["ccc", "dddd"])
    assert first.tolist() == [1, 2]
    assert [token.vectors.item() for token in tokens] == [1, 2]


@pytest.mark.parametrize("shape", [(3, 2), (3, 1), (1, 3)])
def test_scores_that_are_not_one_per_pair_are_refused(shape):
    def score_pairs(_, texts):
        return torch.ones(shape)[: len(texts)]

    with pytest.raises(ValueError, match=r"score_pairs of .* gave .* for 3 pairs"):
        Repeating(score_pairs)([0, 0, 0], ["a", "b", "c"])


ONE_BOX = torch.tensor([[0.0, 0.0, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("name", "output", "parts"),
    [
        ("encode_tokens", TokenVectors([(0, 1)], torch.ones(2, 3)), "1 spans and 2 vectors"),
        ("encode_regions", torch.ones(2, 3), "1 boxes and 2 vectors"),
        ("detect", Regions(ONE_BOX, None, None, ["a", "b"], (1, 1)), "1 boxes and 2 labels"),
    ],
)
def test_parts_of_an_output_that_are_not_equally_many_are_refused(name, output, parts):
    def method(values, *_):
        return [output for _ in values]

    method.__name__ = name
    with pytest.raises(ValueError, match=f"{name} gave {parts} for example 0"):
        Repeating(method)(["a"], [ONE_BOX])


@pytest.mark.parametrize("part", ["vectors", "scores"])
def test_a_detector_whose_regions_depend_on_the_batch_beside_their_boxes_is_refused(part):
    def detect(pictures):
        mean = torch.tensor([float(picture) for picture in pictures]).mean()
        of_all = {"vectors": torch.ones(1, 3), "scores": torch.ones(1)}
        changed = of_all | {part: of_all[part] * mean}
        return [Regions(100 * ONE_BOX, labels=None, size=(100, 100), **changed) for _ in pictures]

    with pytest.raises(SpecError, match="detect gives different outputs in a batch of 8"):
        Repeating(detect)([*range(1, 9)])
