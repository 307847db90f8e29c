import pytest
import torch
import transformers
from PIL import Image

from vlbench.adapter_kit.image_processors import View, preparation_of, view_of
from vlbench.errors import WeightsError

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


SQUARES = (
    "Beit",
    "Bit",
    "Blip",
    "ChineseCLIP",
    "CLIP",
    "DeiT",
    "DINOv3ViT",
    "EfficientNet",
    "Flava",
)
SQUARES += (
    "MobileNetV1",
    "MobileNetV2",
    "MobileViT",
    "Pvt",
    "Segformer",
    "Siglip",
    "Tipsv2",
    "ViT",
)
CASES = {name: {} for name in SQUARES} | {
    "Levit": {"size": {"shortest_edge": 56}, "crop_size": dict.fromkeys(SQUARE, 56)},
    "PoolFormer": {"size": {"shortest_edge": 54}, "crop_size": dict.fromkeys(SQUARE, 54)},
    "ConvNext": {"size": {"shortest_edge": 42}, "crop_pct": 0.875},
}


def saved(name, folder, **options):
    """Return an image processor of the library as its own folder gives it."""
    getattr(transformers, f"{name}ImageProcessor")(**options).save_pretrained(folder)
    return transformers.AutoImageProcessor.from_pretrained(folder)


def colours(size):
    """Return a picture whose channels differ, and that is smooth: one pixel is no step."""
    sides = Image.linear_gradient("L"), Image.radial_gradient("L")
    return Image.merge("RGB", [sides[1], sides[0].rotate(90), sides[0]]).resize(size)


@pytest.mark.parametrize("name", CASES)
def test_pixels_become_what_the_library_gives(name, tmp_path):
    processor, picture = saved(name, tmp_path, **CASES[name]), colours((160, 91))
    prepared = preparation_of(processor, "a model")
    found = (prepared.view.steps()(picture) - prepared.mean) / prepared.std
    found = found.flip(0) if prepared.is_bgr else found
    expected = processor(picture, return_tensors="pt").pixel_values[0]
    assert ((found - expected) * prepared.std).abs().mean() < 0.006


@pytest.mark.parametrize("name", ["Owlv2", "Janus", "PPLCNet", "Perceiver"])
def test_a_processor_that_does_more_is_refused(name, tmp_path):
    with pytest.raises(WeightsError, match=rf"a model: its {name}\S+ does more than resize, crop"):
        preparation_of(saved(name, tmp_path), "a model")


def test_a_processor_that_says_no_size_is_named(tmp_path):
    with pytest.raises(WeightsError, match=r"a model: its Swin2SRImageProcessor has no 'size'"):
        preparation_of(saved("Swin2SR", tmp_path), "a model")


def test_pictures_of_several_sizes_are_refused():
    recipe = transformers.DPTImageProcessor(size={"shortest_edge": 64}).to_dict()
    with pytest.raises(WeightsError, match=r"a model: images resized to .* not all of one size"):
        view_of(recipe, "a model")


def test_boxes_are_scaled_with_a_squashed_picture():
    boxes = torch.tensor([[10.0, 10, 40, 20]])
    placed = View((30, 20), None, 3).place(boxes, (40, 20))
    assert placed.tolist() == [[5, 15, 20, 30]]


def test_boxes_are_scaled_and_moved_with_a_crop():
    boxes = torch.tensor([[0.0, 0, 40, 20], [20.0, 10, 30, 20]])
    placed = View(40, (30, 20), 3).place(boxes, (40, 20))  # 80 x 40, less 30 and 5
    assert placed.tolist() == [[-30, -5, 50, 35], [10, 15, 30, 35]]
