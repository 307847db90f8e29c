from types import SimpleNamespace

import pytest
import torch
from torch import nn

from vlbench.adapter_kit.square_views import SquareView, image_features
from vlbench.errors import CannotDo, SpecError


class Mean(nn.Module):
    """Gives an image of any size one token, its mean colour, before normalisation undone."""

    dtype = torch.float32

    def __init__(self, **vision):
        super().__init__()
        self.config = SimpleNamespace(vision_config=SimpleNamespace(**vision), model_type="gemma3")

    def get_image_features(self, pixel_values):
        return SimpleNamespace(pooler_output=pixel_values.mean((2, 3))[:, None])


def processor(**more):
    usual = {"do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    images = {**usual, "do_center_crop": False, "size": {}, **more}
    return SimpleNamespace(image_processor=SimpleNamespace(**images))


def test_pixels_are_normalised_before_the_model_sees_them():
    view = SquareView(Mean(image_size=8), processor(), None)
    assert view.size == 8
    pixels = torch.stack([torch.full((3, 8, 8), 0.75), torch.full((3, 8, 8), 0.25)])
    assert view.tokens(pixels).tolist() == [[[1, 1, 1]], [[-1, -1, -1]]]


def test_pixels_may_be_left_as_they_are():
    view = SquareView(Mean(image_size=(8, 8)), processor(do_normalize=False), None)
    assert view.tokens(torch.full((1, 3, 8, 8), 0.75)).tolist() == [[[0.75] * 3]]


def test_an_encoder_that_says_no_size_sees_that_of_its_processor():
    cut = {"do_center_crop": True, "crop_size": {"height": 6, "width": 6}}
    assert SquareView(Mean(), processor(size={"height": 9, "width": 9}), None).size == 9
    assert SquareView(Mean(), processor(**cut), None).size == 6


def test_a_model_of_no_known_size_is_refused():
    with pytest.raises(CannotDo, match="Mean does not say what size of pixels it sees"):
        SquareView(Mean(), processor(), None)


@pytest.mark.parametrize(
    ("vision", "more", "size", "message"),
    [
        ({"image_size": 8}, {}, 9, "size 9 is not 8, the only size that the model sees"),
        ({"patch_size": 4}, {"merge_size": 2}, 12, "size 12 is no multiple of 8"),
    ],
)
def test_a_size_that_the_model_cannot_see_is_refused(vision, more, size, message):
    with pytest.raises(SpecError, match=message):
        SquareView(Mean(**vision), processor(**more), size)


def test_tokens_of_several_pictures_follow_each_other():
    parts = [torch.zeros(2, 4), torch.ones(3, 4)]
    model = SimpleNamespace(get_image_features=lambda: SimpleNamespace(pooler_output=parts))
    assert image_features(model, {})[:, 0].tolist() == [0, 0, 1, 1, 1]
