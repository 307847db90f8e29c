import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file
from tiny_cnns import IMAGENET, LITTLE, SMALL, TorchvisionCnn, draw_torchvision
from tiny_joint import CPU, as_bytes
from torch import nn
from torchvision.models.feature_extraction import create_feature_extractor

from vlbench.errors import CannotDo, UnknownNameError, WeightsError


@pytest.fixture(scope="module")
def little():
    return draw_torchvision("resnet18")


def test_the_default_architecture_is_a_resnet_50(pixels):
    assert TorchvisionCnn(**SMALL, weights="random").encode_images(pixels).shape == (2, 2048)


def test_logits_are_those_of_torchvision(little, pixels, tmp_path):
    save_file(little, tmp_path / "little.safetensors")
    weights = str(tmp_path / "little.safetensors")
    model = TorchvisionCnn(**LITTLE, weights=weights)
    whole = torchvision.models.resnet18()
    whole.load_state_dict(little)
    torch.testing.assert_close(model.logits(pixels), whole.eval()(IMAGENET(pixels)))


def test_the_classes_are_imagenets():
    names = TorchvisionCnn(**LITTLE, weights="random").class_names()
    assert len(names) == 1000
    assert (names[0], names[207], names[999]) == ("tench", "golden retriever", "toilet tissue")


def test_the_classes_of_a_file_are_imagenets_where_that_is_said(little, file):
    torch.save(little, file)
    unsaid = TorchvisionCnn(**LITTLE, weights=str(file))
    said = TorchvisionCnn(**LITTLE, weights=str(file), classes="imagenet")
    assert (unsaid.class_order, said.class_order) == ("", "imagenet")
    assert said.class_names()[207] == "golden retriever"
    with pytest.raises(CannotDo, match="1000 classes are not known"):
        unsaid.class_names()


def test_other_classes_have_the_names_of_a_file(little, file, tmp_path):
    torch.save(little | {"fc.weight": torch.zeros(2, 512), "fc.bias": torch.zeros(2)}, file)
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    model = TorchvisionCnn(**LITTLE, weights=str(file), classes=str(tmp_path / "names.txt"))
    assert model.class_names() == ["cat", "dog"]


def test_other_classes_have_logits_but_no_names(little, pixels, file):
    head = {"fc.weight": torch.zeros(7, 512), "fc.bias": torch.arange(7.0)}
    torch.save(little | head, file)
    model = TorchvisionCnn(**LITTLE, weights=str(file))
    assert model.logits(pixels).tolist() == [[0, 1, 2, 3, 4, 5, 6]] * 2
    with pytest.raises(CannotDo, match="this checkpoint's 7 classes are not known"):
        model.class_names()


def test_an_absent_file_says_where_to_get_it():
    with pytest.raises(
        WeightsError,
        match=r"nowhere\.pt; where to get it: the authors; give its path as weights=PATH",
    ):
        TorchvisionCnn(**LITTLE, weights="nowhere.pt", source="the authors")


def test_an_unknown_tag_lists_those_there_are():
    with pytest.raises(WeightsError, match="resnet18 has the tags IMAGENET1K_V1, random"):
        TorchvisionCnn(**LITTLE, weights="IMAGENET1K_V3")


def test_an_unknown_architecture_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean resnet50"):
        TorchvisionCnn(**SMALL, architecture="resnet5")


@pytest.mark.parametrize("layer", ["layer2", "layer1.0.bn1", "fc", "layer4.1.conv2"])
def test_features_of_a_layer_are_those_of_torchvisions_extractor(little, pixels, file, layer):
    torch.save(little, file)
    model = TorchvisionCnn(**LITTLE, weights=str(file), layer=layer)
    whole = torchvision.models.resnet18()
    whole.load_state_dict(little)
    # Stops at the layer, before the ReLU that writes into the output of a normalisation.
    theirs = create_feature_extractor(whole.eval(), {layer: "found"})(IMAGENET(pixels))["found"]
    expected = theirs if theirs.ndim == 2 else theirs.mean((2, 3))
    torch.testing.assert_close(model.encode_images(pixels), expected)


def test_a_layer_that_is_not_there_names_the_nearest():
    with pytest.raises(UnknownNameError, match="no layer is named 'layer33'; did you mean layer3"):
        TorchvisionCnn(**LITTLE, weights="random", layer="layer33")


def test_a_layer_that_runs_twice_is_refused(pixels):
    model = TorchvisionCnn(**LITTLE, weights="random", layer="layer1.0.relu")
    with pytest.raises(CannotDo, match=r"layer1\.0\.relu runs 2 times, not once"):
        model.encode_images(pixels)


def test_a_layer_of_tokens_is_refused():
    options = {"device": CPU, "architecture": "vit_b_32", "weights": "random", "resize": 224}
    model = TorchvisionCnn(**options, layer="encoder.layers.encoder_layer_0")
    with pytest.raises(CannotDo, match=r"encoder_layer_0 gives \[1, 50, 768\], not \[N, D\]"):
        model.encode_images(torch.zeros(1, 3, 224, 224))


def test_layers_whose_channels_come_last_are_refused():
    with pytest.raises(CannotDo, match="a Swin transformer"):
        TorchvisionCnn(**SMALL, architecture="swin_t", weights="random", layer="features.1")


SQUEEZED = {**SMALL, "architecture": "squeezenet1_1"}


def test_squeezenet_ends_in_a_convolution_whose_inputs_are_averaged(pixels):
    model = TorchvisionCnn(**SQUEEZED, weights="random", init_seed=3)
    torch.manual_seed(3)
    whole = torchvision.models.squeezenet1_1().eval()
    maps = whole.features(IMAGENET(pixels))
    torch.testing.assert_close(model.encode_images(pixels), maps.mean((2, 3)))
    torch.testing.assert_close(model.logits(pixels), whole(IMAGENET(pixels)))


def test_a_convolution_at_the_end_takes_the_classes_of_a_file(pixels, file):
    state = torchvision.models.squeezenet1_1(num_classes=7).state_dict()
    torch.save(state, file)
    assert TorchvisionCnn(**SQUEEZED, weights=str(file)).logits(pixels).shape == (2, 7)


OTHERS = ["densenet121", "convnext_tiny", "swin_t", "efficientnet_b0", "googlenet"]


@pytest.mark.filterwarnings("ignore:The default weight initialization of GoogleNet")
@pytest.mark.parametrize("name", OTHERS)
def test_logits_are_the_last_layer_of_the_features(name, pixels):
    model = TorchvisionCnn(**SMALL, architecture=name, weights="random")
    head = model.model.get_submodule(model._head)
    expected = torch.nn.functional.linear(model.encode_images(pixels), head.weight, head.bias)
    torch.testing.assert_close(model.logits(pixels), expected)


def test_a_transformer_names_the_size_that_it_reads(pixels):
    options = {"device": CPU, "architecture": "vit_b_32", "weights": "random"}
    with pytest.raises(CannotDo, match=r"224 x 224, not \[64, 64\]; .* resize=224,crop=224$"):
        TorchvisionCnn(**options).encode_images(pixels)
    model = TorchvisionCnn(**options, resize=224)
    assert model.encode_images(torch.zeros(1, 3, 224, 224)).shape == (1, 768)


def test_the_features_are_what_the_last_linear_layer_reads(pixels):
    options = {"architecture": "mobilenet_v3_small", "weights": "random", "init_seed": 3}
    model = TorchvisionCnn(**SMALL, **options)
    torch.manual_seed(3)
    whole = torchvision.models.mobilenet_v3_small().eval()
    whole.classifier[-1] = nn.Identity()
    torch.testing.assert_close(model.encode_images(pixels), whole(IMAGENET(pixels)))


def seen(photo, **options):
    model = TorchvisionCnn(device=CPU, architecture="resnet18", weights="random", **options)
    return as_bytes(model.preprocess(photo))


def test_the_centre_of_the_resized_picture_is_seen(photo):
    expected = photo.resize((60, 40), Image.Resampling.BICUBIC).crop((14, 4, 46, 36))
    np.testing.assert_array_equal(seen(photo, resize=40, crop=32), np.asarray(expected))


def test_a_squashed_picture_is_seen_whole(photo):
    expected = photo.resize((32, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(seen(photo, resize=32, squash=True), np.asarray(expected))


def test_the_papers_size_is_the_default(photo):
    assert seen(photo).shape == (256, 256, 3)


@pytest.mark.parametrize("architecture", ["googlenet", "inception_v3"])
def test_a_file_of_a_model_that_normalises_again_gives_torchvisions_logits(architecture, file):
    options = {"aux_logits": True, "init_weights": False, "transform_input": True}
    whole = torchvision.models.get_model(architecture, weights=None, **options).eval()
    torch.save(whole.state_dict(), file)
    model = TorchvisionCnn(device=CPU, architecture=architecture, weights=str(file))
    pixels = torch.rand(1, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model.logits(pixels), whole(IMAGENET(pixels)))


def test_a_file_of_a_tags_weights_sees_what_the_tag_was_published_with(little, file):
    torch.save(little, file)
    given = {"architecture": "resnet18", "weights": str(file), "tag": "IMAGENET1K_V1"}
    model = TorchvisionCnn(device=CPU, **given)
    assert model.settled == {"resize": 256, "crop": 224, "interpolation": "bilinear"}
    photo = Image.effect_noise((90, 60), 80).convert("RGB")
    theirs = torchvision.models.ResNet18_Weights.IMAGENET1K_V1.transforms()(photo)
    torch.testing.assert_close(IMAGENET(model.preprocess(photo)), theirs)


@pytest.mark.parametrize(
    "architecture",
    [
        *("resnet18", "mobilenet_v3_small", "shufflenet_v2_x0_5", "regnet_y_400mf", "mnasnet0_5"),
        *("inception_v3", "googlenet", "maxvit_t", "swin_t", "vit_b_32"),
    ],
)
@pytest.mark.filterwarnings("ignore:The default weight initialization:FutureWarning")
def test_every_architecture_has_a_trunk_with_a_grid(architecture):
    size = 224 if architecture in {"vit_b_32", "maxvit_t"} else 128
    model = TorchvisionCnn(device=CPU, architecture=architecture, weights="random")
    with torch.no_grad():
        grid = model.encode_grid(torch.rand(1, 3, size, size))
    assert grid.ndim == 4
    assert grid.shape[1] > grid.shape[2] == grid.shape[3] > 1


@pytest.mark.parametrize("architecture", ["resnet18", "mobilenet_v3_small", "swin_t"])
def test_a_grid_averages_to_what_the_network_pools(architecture, pixels):
    model = TorchvisionCnn(device=CPU, architecture=architecture, weights="random")
    pooled = []
    model.model.avgpool.register_forward_hook(lambda *given: pooled.append(given[-1].flatten(1)))
    grid = model.encode_grid(pixels)
    if architecture == "swin_t":  # normalised in between
        grid = model.model.norm(grid.movedim(1, -1)).movedim(-1, 1)
    assert grid.shape[2:] == (2, 2)
    torch.testing.assert_close(grid.mean((2, 3)), pooled[0], rtol=1e-4, atol=1e-5)


def test_the_grid_of_a_transformer_is_its_patches():
    model = TorchvisionCnn(device=CPU, architecture="vit_b_32", weights="random")
    pixels, states = torch.rand(1, 3, 224, 224), []
    model.model.encoder.register_forward_hook(lambda *given: states.append(given[-1]))
    grid = model.encode_grid(pixels)
    assert grid.shape == (1, 768, 7, 7)
    torch.testing.assert_close(grid[0, :, 2, 3], states[0][0, 1 + 2 * 7 + 3])


def test_the_grid_of_a_layer_is_its_maps(pixels):
    model = TorchvisionCnn(device=CPU, architecture="resnet18", weights="random", layer="layer3")
    grid = model.encode_grid(pixels)
    assert grid.shape == (2, 256, 4, 4)
    torch.testing.assert_close(grid.mean((2, 3)), model.encode_images(pixels))


def test_a_layer_without_maps_has_no_grid(pixels):
    model = TorchvisionCnn(device=CPU, architecture="resnet18", weights="random", layer="fc")
    with pytest.raises(CannotDo, match=r"^fc gives no grid"):
        model.encode_grid(pixels)
