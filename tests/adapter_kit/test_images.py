import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tiny_joint import as_bytes, noise
from torch import nn
from torchvision.transforms import Normalize
from transformers import image_utils

from vlbench.adapter_kit.images import (
    CLIP,
    IMAGENET,
    ResizeAndCrop,
    SquareView,
    image_features,
    images_of,
    normalise,
    pixels_of,
    preparation_of,
    resizing,
    to_pixels,
    view_of,
)
from vlbench.capabilities import Picture
from vlbench.errors import CannotDo, DataError, SpecError, WeightsError


@pytest.fixture
def photo():
    return noise(120, 80)


def test_pixels_are_the_images_bytes_over_255(photo):
    pixels = to_pixels(photo)
    assert (pixels.shape, pixels.dtype) == ((3, 80, 120), torch.float32)
    np.testing.assert_array_equal(as_bytes(pixels), np.asarray(photo))
    assert 0 <= pixels.min() <= pixels.max() <= 1


def test_the_centre_of_the_resized_image_is_cut(photo):
    expected = photo.resize((60, 40), Image.Resampling.BICUBIC).crop((14, 4, 46, 36))
    np.testing.assert_array_equal(as_bytes(resizing(40, 32)(photo)), np.asarray(expected))


def test_a_squashed_image_is_whole(photo):
    expected = photo.resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(as_bytes(resizing(32, squash=True)(photo)), np.asarray(expected))


@pytest.mark.parametrize("name", ["bicubic", "bilinear", "nearest"])
def test_an_image_is_resized_by_the_interpolation_asked_for(photo, name):
    expected = photo.resize((48, 32), Image.Resampling[name.upper()]).crop((8, 0, 40, 32))
    np.testing.assert_array_equal(
        as_bytes(resizing(32, interpolation=name)(photo)), np.asarray(expected)
    )


def test_without_a_crop_the_square_is_as_large_as_the_shorter_side(photo):
    assert resizing(40)(photo).shape == (3, 40, 40)


def test_a_crop_larger_than_the_image_is_refused():
    with pytest.raises(SpecError, match="crop 256 is larger than resize 224"):
        resizing(224, 256)


def test_resizing_can_be_pickled_for_workers(photo):
    steps = resizing(40, 32)
    assert torch.equal(pickle.loads(pickle.dumps(steps))(photo), steps(photo))  # noqa: S301


def test_normalising_is_torchvisions_to_the_last_bit():
    pixels = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(normalise(pixels, *CLIP), Normalize(*CLIP)(pixels))


def test_the_constants_are_the_published_ones():
    published = image_utils.IMAGENET_DEFAULT_MEAN, image_utils.IMAGENET_DEFAULT_STD
    assert tuple(map(tuple, published)) == IMAGENET
    published = image_utils.OPENAI_CLIP_MEAN, image_utils.OPENAI_CLIP_STD
    assert tuple(map(tuple, published)) == CLIP


def test_a_picture_without_an_image_is_named(photo):
    pictures = [Picture(photo, None), Picture(None, None)]
    with pytest.raises(DataError, match="picture 1 of the batch has no image"):
        images_of(pictures)
    with pytest.raises(DataError, match="picture 1 of the batch has no image"):
        pixels_of(pictures, to_pixels)


def test_images_become_one_batch(photo):
    assert pixels_of([Picture(photo, None)] * 2, resizing(32)).shape == (2, 3, 32, 32)


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
    with pytest.raises(CannotDo, match="Mean does not declare the size of its input"):
        SquareView(Mean(), processor(), None)


UNSEEN = [
    ({"image_size": 8}, {}, 9, "size 9 is not 8, the model's only input size"),
    ({"patch_size": 4}, {"merge_size": 2}, 12, "size 12 is not a multiple of 8"),
]


@pytest.mark.parametrize(("vision", "more", "size", "message"), UNSEEN)
def test_a_size_that_the_model_cannot_see_is_refused(vision, more, size, message):
    with pytest.raises(SpecError, match=message):
        SquareView(Mean(**vision), processor(**more), size)


def test_tokens_of_several_pictures_follow_each_other():
    parts = [torch.zeros(2, 4), torch.ones(3, 4)]
    model = SimpleNamespace(get_image_features=lambda: SimpleNamespace(pooler_output=parts))
    assert image_features(model, {})[:, 0].tolist() == [0, 0, 1, 1, 1]


SQUARE = {"height": 224, "width": 224}
VIEWS = {
    "ViT": ({"size": SQUARE}, ((224, 224), None)),
    "DeiT": ({"size": {"height": 256, "width": 256}}, ((256, 256), (224, 224))),
    "Bit": ({"size": {"shortest_edge": 256}}, (256, (224, 224))),
    "Levit": ({"size": {"shortest_edge": 224}}, (256, (224, 224))),
    "PoolFormer": ({"size": {"shortest_edge": 224}, "crop_pct": 0.9}, (248, (224, 224))),
}


@pytest.mark.parametrize("name", VIEWS)
def test_the_view_is_that_of_the_processor(name):
    options, expected = VIEWS[name]
    processor = getattr(transformers, f"{name}ImageProcessor")(**options)
    assert view_of(processor.to_dict(), name)[:2] == expected


@pytest.mark.parametrize(
    ("edge", "expected"), [(224, (256, (224, 224))), (384, ((384, 384), None))]
)
def test_convnext_crops_below_384_pixels_alone(edge, expected):
    processor = transformers.ConvNextImageProcessor(size={"shortest_edge": edge}, crop_pct=0.875)
    assert view_of(processor.to_dict(), "ConvNeXt")[:2] == expected


SQUARES = [
    *("Beit", "Bit", "Blip", "ChineseCLIP", "CLIP", "DeiT", "DINOv3ViT", "EfficientNet", "Flava"),
    *("MobileNetV1", "MobileNetV2", "MobileViT", "Pvt", "Segformer", "Siglip", "Tipsv2", "ViT"),
]
CASES = {name: {} for name in SQUARES} | {
    "Levit": {"size": {"shortest_edge": 56}, "crop_size": dict.fromkeys(SQUARE, 56)},
    "PoolFormer": {"size": {"shortest_edge": 54}, "crop_size": dict.fromkeys(SQUARE, 54)},
    "ConvNext": {"size": {"shortest_edge": 42}, "crop_pct": 0.875},
}


def saved(name, folder, **options):
    """Return an image processor of the library as its own folder gives it."""
    getattr(transformers, f"{name}ImageProcessor")(**options).save_pretrained(folder)
    return transformers.AutoImageProcessor.from_pretrained(folder)


def noise_of(width, height):
    draw = np.random.default_rng(width * height)
    return Image.fromarray(draw.integers(0, 256, (height, width, 3), np.uint8))


# 3 pixels over a multiple of 4, which torchvision and transformers cut otherwise, and others.
SIZES = ((227, 231), (230, 226), (160, 91), (99, 301), (64, 65), (56, 59))


@pytest.mark.parametrize("name", CASES)
def test_pixels_become_what_the_library_gives(name, tmp_path):
    processor = saved(name, tmp_path, **CASES[name])
    prepared = preparation_of(processor, "a model")
    for picture in [noise_of(*size) for size in SIZES]:
        found = (prepared.view.steps()(picture) - prepared.mean) / prepared.std
        found = found.flip(0) if prepared.is_bgr else found
        expected = processor(picture, return_tensors="pt").pixel_values[0]
        # Tensors are rounded to grey levels otherwise than images; one pixel beside is 0.1.
        assert ((found - expected) * prepared.std).abs().mean() < 0.003


@pytest.mark.parametrize("resample", range(6))
def test_an_interpolation_is_pillows(resample, tmp_path):
    processor = saved("ViT", tmp_path, size=dict.fromkeys(SQUARE, 32), resample=resample)
    found = preparation_of(processor, "a model").view.steps()(noise_of(64, 40))
    expected = np.array(noise_of(64, 40).resize((32, 32), resample))
    assert torch.equal((found * 255).round().byte().permute(1, 2, 0), torch.from_numpy(expected))


@pytest.mark.parametrize("resample", [6, 7, "box", None])
def test_another_interpolation_is_named(resample):
    recipe = {"size": dict.fromkeys(SQUARE, 32), "resample": resample}
    message = f"^a model: resample {resample!r} is not an interpolation; use one of"
    with pytest.raises(WeightsError, match=message):
        view_of(recipe, "a model")


@pytest.mark.parametrize("name", ["Owlv2", "Janus", "PPLCNet", "Perceiver"])
def test_a_processor_that_does_more_is_refused(name, tmp_path):
    with pytest.raises(WeightsError, match=rf"a model: its {name}\S+ does more than resize, crop"):
        preparation_of(saved(name, tmp_path), "a model")


@pytest.mark.parametrize("side", [64, 560])
def test_a_processor_that_shrinks_without_smoothing_is_refused(side, tmp_path):
    processor = saved("RfDetr", tmp_path, size=dict.fromkeys(SQUARE, side))
    with pytest.raises(WeightsError, match=r"its RfDetrImageProcessor does more than resize"):
        preparation_of(processor, "a model")


def test_a_processor_that_says_no_size_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"a model: its Swin2SRImageProcessor has no 'size'"):
        preparation_of(saved("Swin2SR", tmp_path), "a model")


def test_pictures_of_several_sizes_are_refused():
    recipe = transformers.DPTImageProcessor(size={"shortest_edge": 64}).to_dict()
    with pytest.raises(WeightsError, match=r"a model: images resized to .* not all of one size"):
        view_of(recipe, "a model")


def test_boxes_are_scaled_with_a_squashed_picture():
    boxes = torch.tensor([[10.0, 10, 40, 20]])
    assert ResizeAndCrop((30, 20), None, 3).place(boxes, (40, 20)).tolist() == [[5, 15, 20, 30]]


def test_boxes_are_scaled_and_moved_with_a_crop():
    boxes = torch.tensor([[0.0, 0, 40, 20], [20.0, 10, 30, 20]])
    placed = ResizeAndCrop(40, (30, 20), 3).place(boxes, (40, 20))  # 80 x 40, less 30 and 5
    assert placed.tolist() == [[-30, -5, 50, 35], [10, 15, 30, 35]]
