import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from tiny_joint import CPU, as_bytes, copy_without, noise
from tiny_vision import MEAN, MODELS, SQUASHED, STD, HfVision

from vlbench.capabilities import Picture
from vlbench.errors import CannotDo, SpecError


@pytest.fixture
def folder(opened):
    return lambda name: opened(f"vision {name}").folder


@pytest.fixture
def model(opened, folder):
    def make(name, **options):
        if not options:
            return opened(f"vision {name}").model
        return HfVision(device=CPU, architecture=folder(name), **options)

    return make


@pytest.fixture
def library(folder):
    """The library's own output for two images of a model's size, and the images."""

    def run(name):
        images = [noise(32, 32, 1), noise(32, 32, 2)]
        processor = transformers.AutoImageProcessor.from_pretrained(folder(name))
        inputs = processor(images, do_resize=False, do_center_crop=False, return_tensors="pt")
        bare = transformers.AutoModel.from_pretrained(folder(name)).eval()
        options = {}
        if name == "mae":
            bare.config.mask_ratio = 0.0
            options = {"noise": torch.arange(16.0).expand(2, -1)}
        with torch.no_grad():
            output = bare(**inputs, **options, output_hidden_states=True)
        pixels = [torch.from_numpy(np.array(one)).permute(2, 0, 1) / 255 for one in images]
        return output, torch.stack(pixels)

    return run


def same(found, expected):
    torch.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mae"])
def test_pooled_vectors_are_the_librarys(name, model, library):
    output, pixels = library(name)
    assert model(name).pool == "pooled"
    same(model(name).encode_images(pixels), output.pooler_output.flatten(1))


# What stands before the patches, of seven architectures.
BEFORE = {"vit": 1, "dinov2": 1, "registers": 5, "dinov3": 5, "mae": 1, "swin": 0, "siglip": 0}


@pytest.mark.parametrize("name", BEFORE)
def test_the_mean_is_over_patches_alone(name, model, library):
    output, pixels = library(name)
    expected = output.last_hidden_state[:, BEFORE[name] :].mean(1)
    same(model(name, pool="mean").encode_images(pixels), expected)


def test_the_mean_of_maps_is_over_positions(model, library):
    output, pixels = library("convnext")
    expected = output.last_hidden_state.mean((2, 3))
    same(model("convnext", pool="mean").encode_images(pixels), expected)


@pytest.mark.parametrize("name", ["vit", "dinov2", "registers", "dinov3", "mae"])
def test_the_first_token_stands_for_the_image(name, model, library):
    output, pixels = library(name)
    same(model(name, pool="cls").encode_images(pixels), output.last_hidden_state[:, 0])


@pytest.mark.parametrize("layer", [0, 1, -2])
def test_a_layer_is_one_of_the_hidden_states(layer, model, library):
    output, pixels = library("vit")
    found = model("vit", pool="cls", layer=layer).encode_images(pixels)
    same(found, output.hidden_states[layer][:, 0])


def test_a_layer_of_a_smaller_grid_is_pooled_too(model, library):
    output, pixels = library("swin")
    assert model("swin", layer=0).grid[1:] == (8, 8)
    assert model("swin").grid[1:] == (4, 4)
    same(model("swin", layer=0).encode_images(pixels), output.hidden_states[0].mean(1))


def test_without_a_pooler_the_first_token_is_taken(model):
    assert model("mae").pool == "cls"


def test_a_checkpoint_without_the_poolers_weights_has_no_pooler(folder, tmp_path):
    path = copy_without("pooler.dense.weight", folder("vit"), tmp_path)
    first, second = (HfVision(device=CPU, architecture=path) for _ in range(2))
    assert first.pool == "cls"
    assert not [key for key, _ in first.model.named_parameters() if "pooler" in key]
    assert len(list(first.model.parameters())) == len(list(second.model.parameters()))
    with pytest.raises(CannotDo, match="gives cls, mean at this layer, not pool=pooled"):
        HfVision(device=CPU, architecture=path, pool="pooled")


def test_a_layer_that_is_not_there_is_refused(folder):
    with pytest.raises(SpecError, match=r"layer 3 is outside -3\.\.2 of "):
        HfVision(device=CPU, architecture=folder("vit"), layer=3)


def test_a_hidden_layer_has_no_pooler(folder):
    with pytest.raises(CannotDo, match="gives cls, mean at this layer, not pool=pooled"):
        HfVision(device=CPU, architecture=folder("vit"), layer=1, pool="pooled")


def test_a_model_of_texts_is_refused(tmp_path):
    config = transformers.BertConfig(vocab_size=9, hidden_size=8, num_attention_heads=2)
    transformers.BertModel(config).save_pretrained(tmp_path)
    SQUASHED.save_pretrained(tmp_path)
    with pytest.raises(CannotDo, match="is a BertModel, which does not read one image"):
        HfVision(device=CPU, architecture=str(tmp_path))


# How far each model resizes a picture of 120 x 80 before it cuts the centre.
VIEWS = {"vit": ((32, 32), (0, 0)), "dinov2": ((72, 48), (20, 8)), "convnext": ((96, 64), (32, 16))}


@pytest.mark.parametrize("name", VIEWS)
def test_a_picture_is_seen_as_its_processor_says(name, model):
    size, (left, top) = VIEWS[name]
    photo = noise(120, 80)
    resample = Image.Resampling(MODELS[name][2].resample)
    expected = photo.resize(size, resample).crop((left, top, left + 32, top + 32))
    np.testing.assert_array_equal(as_bytes(model(name).preprocess(photo)), np.asarray(expected))


@pytest.mark.parametrize("name", VIEWS)
def test_what_is_seen_is_what_the_library_sees(name, model, folder):
    smooth = Image.radial_gradient("L").resize((160, 80)).convert("RGB")
    processor = transformers.AutoImageProcessor.from_pretrained(folder(name))
    expected = processor(smooth, return_tensors="pt").pixel_values[0]
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, STD))
    found = (model(name).preprocess(smooth) - mean) / std
    torch.testing.assert_close(found, expected, rtol=0, atol=0.03)


def patches(model, photo):
    """Return the vectors of a picture's patches, row by row."""
    output = model.model(pixel_values=(model.preprocess(photo)[None] - model._mean) / model._std)
    return output.last_hidden_state[0, 1:].detach()


def regions(model, photo, boxes):
    (found,) = model.encode_regions([Picture(photo, None)], [torch.tensor(boxes)])
    return found.detach()


def test_a_region_is_the_mean_of_its_patches_weighted_by_overlap(model):
    photo, vit = noise(64, 32), model("vit")  # a patch is 16 x 8 pixels of this picture
    vectors = patches(vit, photo)
    boxes = [[16.0, 8, 32, 16], [0.0, 0, 64, 32], [8.0, 0, 40, 8]]
    found = regions(vit, photo, boxes)
    same(found[0], vectors[5])
    same(found[1], vectors.mean(0))
    same(found[2], vectors[[0, 1, 1, 2]].mean(0))


def test_regions_obey_the_crop(model):
    photo, dino = noise(96, 48), model("dinov2")  # what it sees is 32..64 and 8..40
    vectors = patches(dino, photo)
    found = regions(dino, photo, [[32.0, 8, 40, 16], [48.0, 24, 56, 32], [60.0, 36, 96, 48]])
    same(found, vectors[[0, 10, 15]])


def test_a_region_that_is_not_seen_gets_the_nearest_patch(model):
    photo, dino = noise(96, 48), model("dinov2")
    found = regions(dino, photo, [[0.0, 0, 8, 4], [90.0, 0, 96, 4], [44.0, 20, 44, 20]])
    same(found, patches(dino, photo)[[0, 3, 5]])


def test_pictures_of_a_batch_keep_their_own_regions(model):
    dino, photos = model("dinov2"), [noise(96, 48, 3), noise(48, 60, 4)]
    boxes = [torch.tensor([[32.0, 8, 64, 40]]), torch.zeros(0, 4)]
    first, none = dino.encode_regions([Picture(photo, None) for photo in photos], boxes)
    same(first.detach()[0], patches(dino, photos[0]).mean(0))
    assert none.shape == (0, 16)


def test_hidden_states_without_a_grid_have_no_regions(model, monkeypatch):
    vit = model("vit")
    monkeypatch.setattr(vit, "grid", None)
    with pytest.raises(CannotDo, match="form no grid of patches"):
        regions(vit, noise(32, 32), [[0.0, 0, 8, 8]])


def test_channels_in_reverse_order_are_turned_in_the_model(tmp_path):
    config = transformers.MobileViTConfig(image_size=64, hidden_sizes=[16, 16, 16])
    transformers.MobileViTModel(config).save_pretrained(tmp_path)
    processor = transformers.MobileViTImageProcessor(
        size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64}
    )
    processor.save_pretrained(tmp_path)
    mobile, photo = HfVision(device=CPU, architecture=str(tmp_path)), noise(64, 64)
    inputs = processor(photo, return_tensors="pt")
    np.testing.assert_array_equal(as_bytes(mobile.preprocess(photo)), np.asarray(photo))
    expected = transformers.AutoModel.from_pretrained(tmp_path)(**inputs).pooler_output
    same(mobile.encode_images(mobile.preprocess(photo)[None]).detach(), expected)
