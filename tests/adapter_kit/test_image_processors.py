import pytest
import torch
import transformers
from PIL import Image

from vlbench.adapter_kit.image_processors import View, normaliser_of, view_of
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


CASES = [
    transformers.LevitImageProcessor(
        size={"shortest_edge": 56}, crop_size=dict.fromkeys(SQUARE, 56)
    ),
    transformers.PoolFormerImageProcessor(
        size={"shortest_edge": 54}, crop_size=dict.fromkeys(SQUARE, 54)
    ),
    transformers.ConvNextImageProcessor(size={"shortest_edge": 42}, crop_pct=0.875),
    transformers.DeiTImageProcessor(
        size=dict.fromkeys(SQUARE, 64), crop_size=dict.fromkeys(SQUARE, 56)
    ),
]


@pytest.mark.parametrize("processor", CASES, ids=lambda one: type(one).__name__)
def test_pixels_become_what_the_library_gives(processor):
    picture = Image.radial_gradient("L").resize((160, 90)).convert("RGB")
    recipe = processor.to_dict()
    mean, std = normaliser_of(recipe)
    found = (view_of(recipe, "a model").steps()(picture) - mean) / std
    expected = processor(picture, return_tensors="pt").pixel_values[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=0.06)


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
