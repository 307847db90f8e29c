from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_joint import CPU, adapter, picture

from vlbench import capabilities
from vlbench.capabilities import Picture, capabilities_in, offered

Control = adapter("controls:Control")
WORDS = str(Path(__file__).parents[2] / "model_adapters" / "tiny" / "bert")


@pytest.fixture(params=[False, True], ids=["constant", "noise"])
def control(request):
    return Control(device=CPU, noise=request.param, words=WORDS)


@pytest.fixture
def noise():
    return Control(device=CPU, noise=True, words=WORDS)


def images(count):
    values = np.random.default_rng(0).integers(0, 256, (count, 20, 30, 3), np.uint8)
    return [Image.fromarray(value) for value in values]


def test_a_control_has_every_capability():
    # But a recording, of which a run asks nothing else.
    every = capabilities_in(capabilities)
    assert offered(Control) == [one for one in every if one is not capabilities.Recording]


def test_the_same_answer_is_given_for_every_input():
    constant = Control(device=CPU, width=4, classes=3)
    pixels = torch.stack([constant.preprocess(image) for image in images(5)])
    pictures = [picture(3, 8, seed=i) for i in range(2)]
    assert len(constant.encode_images(pixels).unique(dim=0)) == 1
    assert len(constant.logits(pixels).unique(dim=0)) == 1
    assert len(constant.encode_texts(["a cat", "two dogs"]).unique(dim=0)) == 1
    assert constant.score_pairs(pictures, ["a cat", "two dogs"]).unique().tolist() == [1]
    assert len(constant.score_answers(pictures, ["a cat?"] * 2, ["yes", "no"]).unique()) == 1
    assert constant.answer(pictures, ["a cat?", "two dogs?"]) == ["yes", "yes"]
    assert constant.attend(pictures, ["a cat", "dogs"])[0].weights.unique().tolist() == [
        pytest.approx(1 / 3)
    ]


def test_a_constant_language_model_gives_every_word_the_same_logit():
    tokenizer, module = Control(device=CPU, words=WORDS).masked_lm()
    logits = module(**tokenizer(["a dog [MASK]"], return_tensors="pt")).logits
    assert logits.unique().tolist() == [0]


def test_noise_depends_on_the_content_alone(noise):
    pixels = torch.stack([noise.preprocess(image) for image in images(3)])
    again = Control(device=CPU, noise=True)
    whole = noise.encode_images(pixels)
    assert torch.equal(again.encode_images(pixels.flip(0)).flip(0), whole)
    assert len(whole.unique(dim=0)) == 3
    other = Control(device=CPU, noise=True, init_seed=1)
    assert not torch.equal(other.encode_images(pixels), whole)


def test_a_word_has_other_noise_in_another_place_and_another_text(noise):
    first, second = noise.encode_tokens(["a dog a", "a cat"])
    assert first.spans == [(0, 1), (2, 5), (6, 7)]
    assert len(torch.cat([first.vectors[[0, 2]], second.vectors[:1]]).unique(dim=0)) == 3


def test_noise_is_standard_normal(noise):
    numbers = noise.encode_texts([f"text {i}" for i in range(1000)])
    assert numbers.mean().abs() < 0.02
    assert numbers.std() == pytest.approx(1, abs=0.02)
    assert (torch.corrcoef(numbers.T) - torch.eye(32)).abs().max() < 0.2


def test_the_gradient_stands_in_for_none_and_differs_between_classes(control):
    pixels = torch.rand(2, 3, 16, 16, requires_grad=True)
    logits = control.logits(pixels)
    assert torch.equal(logits, control.logits(pixels.detach()))
    logits.log_softmax(1)[:, 0].sum().backward()
    assert (pixels.grad != 0).all()


def test_each_label_has_a_region_of_its_own():
    labelled = Control(device=CPU, noise=True, labels=["dog", "cat"])
    (found,) = labelled.detect([picture(3, 8)])
    assert found.labels == ["dog", "cat"]
    assert found.boxes.tolist() == [[0, 0, 60, 40]] * 2
    assert not torch.equal(*found.vectors)


def test_a_picture_without_regions_or_image_is_seen_as_a_whole(noise):
    image = Picture(images(1)[0], None)
    assert noise.attend([image], ["a cat"])[0].boxes.tolist() == [[0, 0, 30, 20]]
    assert noise.detect([Picture(None, None)])[0].size == (1, 1)
    assert noise.detect([Picture(None, picture(3, 8).regions)])[0].size == (60, 40)
