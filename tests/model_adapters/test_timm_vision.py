import timm
import torch
from PIL import Image
from tiny_joint import CPU, adapter

TimmVision = adapter("timm_vision:TimmVision")
NAME = "timm_vision"


def test_features_and_logits_are_the_librarys(model, opened):
    given = opened(NAME).given
    library = timm.create_model(given["architecture"], checkpoint_path=given["weights"]).eval()
    options = timm.data.resolve_model_data_config(library)
    transform = timm.data.create_transform(**options, is_training=False)
    photo = Image.radial_gradient("L").resize((300, 200)).convert("RGB")
    inputs, pixels = transform(photo)[None], model.preprocess(photo)[None]
    assert pixels.shape == (1, 3, 160, 160)
    pooled = library.forward_head(library.forward_features(inputs), pre_logits=True)
    torch.testing.assert_close(model.encode_images(pixels), pooled)
    torch.testing.assert_close(model.logits(pixels), library(inputs))


def test_a_transformer_has_the_size_that_it_reads():
    model = TimmVision(device=CPU, weights="random", architecture="vit_tiny_patch16_224")
    pixels = model.preprocess(Image.new("RGB", (50, 60)))
    assert pixels.shape == (3, 224, 224)
    assert model.encode_images(pixels[None]).shape == (1, 192)


def test_the_grid_of_a_transformer_is_its_patches(model):
    pixels = model.preprocess(Image.radial_gradient("L").convert("RGB"))[None]
    patches = model.model.forward_features(pixels.sub(0.5).div(0.5))[:, 1:]
    assert model.model.pretrained_cfg["mean"] == (0.5, 0.5, 0.5)
    expected = patches.mT.unflatten(2, (10, 10))
    torch.testing.assert_close(model.encode_grid(pixels), expected)
