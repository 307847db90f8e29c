import pytest
import torch
from torch import nn
from torchvision.transforms.functional import resize, to_tensor

from vlbench.adapter_kit.layers import HookedLayers
from vlbench.errors import CannotDo, UnknownNameError


def small(image):
    return resize(to_tensor(image), [16, 16])


def hooked(model, encode=None):
    model = model.eval().requires_grad_(requires_grad=False)
    return HookedLayers(model, encode or model.forward, small)


class Convolutions(nn.Module):
    def __init__(self, channels=(3, 4, 5)):
        super().__init__()
        self.stem = nn.Conv2d(3, 3, 1)
        pairs = zip((3, *channels), channels, strict=False)
        self.blocks = nn.Sequential(*(nn.Conv2d(a, b, 3, 2, 1) for a, b in pairs))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(channels[-1] * 4, 7))

    def forward(self, pixels):
        return self.head(self.blocks(self.stem(pixels)))


class Tokens(nn.Module):
    """Blocks of tokens, the first of them for the class; or, `last`, of maps with channels last."""

    def __init__(self, *, classed=True, batch_first=True):
        super().__init__()
        self.cls_token = nn.Parameter(torch.ones(1, 1, 6)) if classed else None
        self.patch = nn.Conv2d(3, 6, 4, 4)
        self.blocks = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.batch_first = batch_first

    def forward(self, pixels):
        tokens = self.patch(pixels).flatten(2).mT
        if self.cls_token is not None:
            tokens = torch.cat([self.cls_token.expand(len(tokens), -1, -1), tokens], 1)
        tokens = tokens if self.batch_first else tokens.transpose(0, 1)
        for block in self.blocks:
            tokens = block(tokens)
        return tokens.mean(1 if self.batch_first else 0)


@pytest.fixture
def pixels():
    return torch.rand(5, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_maps_are_averaged_over_their_positions_and_the_output_is_the_encoders(pixels):
    model = Convolutions()
    layers = hooked(model)
    assert layers.names == ["blocks.0_mean", "blocks.1_mean", "blocks.2_mean", "output"]
    found = layers.encode_at(pixels, layers.names)
    x = model.stem(pixels)
    for i, block in enumerate(model.blocks):
        x = block(x)
        assert torch.allclose(found[f"blocks.{i}_mean"], x.mean((2, 3)))
    assert torch.equal(found["output"], model(pixels))


def test_asking_for_names_leaves_a_network_in_training_as_it_was():
    model = Convolutions()
    model.blocks.insert(1, nn.BatchNorm2d(3))
    model.train()
    model.stem.eval()
    before = {name: value.clone() for name, value in model.named_buffers()}
    assert "blocks.1_mean" in HookedLayers(model, model.forward, small).names
    assert all(torch.equal(before[name], value) for name, value in model.named_buffers())
    assert not model.stem.training
    assert all(module.training for module in [model, *model.blocks, *model.head])


def test_of_tokens_the_class_token_is_taken_where_there_is_one(pixels):
    model = Tokens()
    found = hooked(model).encode_at(pixels, ["blocks.1_cls", "blocks.0_cls"])
    assert list(found) == ["blocks.1_cls", "blocks.0_cls"]
    first = model.blocks[0](model.cls_token[0, 0])
    assert torch.allclose(found["blocks.0_cls"], first.expand(5, -1))


@pytest.mark.parametrize("batch_first", [True, False])
def test_tokens_without_a_class_are_averaged_wherever_the_batch_is(pixels, batch_first):
    model = Tokens(classed=False, batch_first=batch_first)
    found = hooked(model).encode_at(pixels, ["blocks.1_mean"])
    assert torch.allclose(found["blocks.1_mean"], model(pixels), atol=1e-6)


class Moved(nn.Module):
    def __init__(self, *inner):
        super().__init__()
        self.inner = inner[0]

    def forward(self, maps):
        return self.inner(maps.movedim(3, 1) if maps.shape[1] != 3 else maps).movedim(1, 3)


def test_channels_are_last_where_the_other_dimensions_are_those_of_the_image(pixels):
    model = nn.Module()
    convolutions = [nn.Conv2d(3, 16, 1), nn.Conv2d(16, 5, 3, 2, 1)]
    model.layers = nn.ModuleList([Moved(one) for one in convolutions])

    def encode(x):
        for layer in model.layers:
            x = layer(x)
        return x.mean((1, 2))

    model.eval()
    # The first has 16 channels for 16 x 16 positions, so that only the second tells.
    layers = HookedLayers(model, encode, small)
    found = layers.encode_at(pixels, layers.names)
    assert torch.allclose(found["layers.1_mean"], encode(pixels))
    assert torch.allclose(found["layers.0_mean"], convolutions[0](pixels).mean((2, 3)), atol=1e-6)


def test_modules_of_one_class_side_by_side_are_layers():
    model = nn.Module()
    for name in ("a", "b", "c"):
        model.add_module(name, nn.Sequential(nn.Conv2d(3, 3, 1)))
        setattr(model, name, Wrapped())

    def encode(pixels):
        return model.c(model.b(model.a(pixels))).mean((2, 3))

    assert HookedLayers(model, encode, small).names == ["a_mean", "b_mean", "c_mean", "output"]


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(3, 3, 1))

    def forward(self, pixels):
        return self.inner(pixels)


def test_a_layer_that_runs_twice_or_gives_no_maps_is_none():
    model = Convolutions()

    def twice(pixels):
        return model(pixels) + model.head(model.blocks[2](model.blocks[1](model.blocks[0](pixels))))

    with pytest.raises(CannotDo, match="a Convolutions has no list of layers that give maps"):
        hooked(model, twice).names  # noqa: B018 - that it raises is the point


def test_an_in_place_activation_does_not_change_what_was_read(pixels):
    model = nn.Module()
    model.blocks = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(inplace=True))
    layers = HookedLayers(model.eval(), lambda x: model.blocks(x).mean((2, 3)), small)
    found = layers.encode_at(pixels, ["blocks.0_mean"])["blocks.0_mean"]
    assert torch.allclose(found, model.blocks[0](pixels).mean((2, 3)))


def test_a_layer_that_there_is_not_is_refused_with_the_nearest(pixels):
    with pytest.raises(UnknownNameError, match=r"no layer is named 'blocks\.0'; did you"):
        hooked(Convolutions()).encode_at(pixels, ["blocks.0"])


LAYERS_OF_TIMM = [
    ("test_vit", ["blocks.0_cls", "blocks.1_cls"]),
    ("test_resnet", ["layer1.0_mean", "layer4.0_mean"]),
    ("test_convnext", ["stages.0_mean", "stages.3_mean"]),
    ("test_efficientnet", ["blocks.0_mean", "blocks.3_mean"]),
]


@pytest.mark.parametrize(("name", "layers"), LAYERS_OF_TIMM)
def test_timms_networks_have_the_layers_that_timm_itself_gives(name, layers):
    import timm

    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False).eval()
    size = model.pretrained_cfg["input_size"][1:]

    def fitted(image):
        return resize(to_tensor(image), list(size))

    def encode(pixels):
        return model.forward_head(model.forward_features(pixels), pre_logits=True)

    found = HookedLayers(model, encode, fitted)
    assert set(layers) < set(found.names)
    pixels = torch.rand(2, 3, *size)
    with torch.no_grad():
        own = found.encode_at(pixels, [*layers, "output"])
        places = [int(one.split(".")[1].split("_")[0]) for one in layers] if "vit" in name else None
        if places:
            given = model.forward_intermediates(
                pixels, indices=places, return_prefix_tokens=True, intermediates_only=True
            )
            for layer, (_, prefix) in zip(layers, given, strict=True):
                assert torch.allclose(own[layer], prefix[:, 0], atol=1e-6)
        else:
            given = model.forward_intermediates(pixels, intermediates_only=True)
            means = [one.mean((2, 3)) for one in given]
            same = [m for m in means if m.shape == own[layers[1]].shape]
            assert any(torch.allclose(own[layers[1]], m, atol=1e-6) for m in same)
        assert torch.equal(own["output"], encode(pixels))


def test_packed_tokens_are_averaged_over_those_of_their_image(pixels):
    model = Tokens(classed=False)

    def encode(x):
        tokens = model.patch(x).flatten(2).mT.flatten(0, 1)
        for block in model.blocks:
            tokens = block(tokens)
        return tokens.unflatten(0, (len(x), -1)).mean(1)

    layers = HookedLayers(model.eval(), encode, small)
    assert layers.names == ["blocks.0_mean", "blocks.1_mean", "output"]
    found = layers.encode_at(pixels, layers.names)
    assert torch.allclose(found["blocks.1_mean"], encode(pixels), atol=1e-6)


def test_a_layer_that_a_batch_does_not_reach_is_named(pixels):
    model = Convolutions()

    def encode(x):
        maps = model.blocks[0](model.stem(x))
        return (model.blocks[1](maps) if len(x) == 3 else maps).mean((2, 3))

    layers = hooked(model, encode)
    with pytest.raises(CannotDo, match=r"no vectors of layer blocks\.1_mean: these images do not"):
        layers.encode_at(pixels, ["blocks.0_mean", "blocks.1_mean"])


class Joined(nn.Module):
    """A block of patches, then a block that also reads the tokens that `join` adds."""

    def __init__(self, join):
        super().__init__()
        self.cls_token = nn.Parameter(torch.ones(1, 1, 6))
        self.registers = nn.Parameter(torch.rand(1, 2, 6))
        self.patch = nn.Conv2d(3, 6, 4, 4)
        self.blocks = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])
        self.join = join

    def forward(self, pixels):
        tokens = self.blocks[0](self.patch(pixels).flatten(2).mT)
        learned = (one.expand(len(tokens), -1, -1) for one in (self.cls_token, self.registers))
        return self.blocks[1](torch.cat(self.join(tokens, *learned), 1))


def test_a_class_token_that_comes_late_and_last_is_taken(pixels):
    model = Joined(lambda tokens, of_class, registers: [registers, tokens, of_class])
    layers = hooked(model)
    assert layers.names == ["blocks.0_mean", "blocks.1_cls", "output"]
    found = layers.encode_at(pixels, ["blocks.1_cls"])["blocks.1_cls"]
    assert torch.allclose(found, model(pixels)[:, -1])


def test_the_mean_leaves_out_registers_before_and_after_the_patches(pixels):
    model = Joined(lambda tokens, _, registers: [registers, tokens, registers])
    found = hooked(model).encode_at(pixels, ["blocks.1_mean"])["blocks.1_mean"]
    assert torch.allclose(found, model(pixels)[:, 2:-2].mean(1), atol=1e-6)


UNTOLD = [
    lambda tokens, _, __: [tokens, tokens.mean(1, keepdim=True)],
    lambda tokens, _, registers: [tokens[:, :3], registers, tokens[:, 3:]],
]


@pytest.mark.parametrize("join", UNTOLD)
def test_a_layer_whose_patches_cannot_be_told_has_no_name_and_says_why(pixels, join):
    layers = hooked(Joined(join))
    assert layers.names == ["blocks.0_mean", "output"]
    with pytest.raises(CannotDo, match=r"no vectors of layer blocks\.1: positions or patches can"):
        layers.encode_at(pixels, ["blocks.1_mean"])


def test_a_network_whose_patches_cannot_be_told_says_why():
    model = Joined(lambda tokens, _, registers: [tokens, registers])
    model.patch = nn.Conv2d(3, 6, 4, (4, 8))  # 4 x 2 patches of a square image
    with pytest.raises(CannotDo, match="a Joined has no layers: positions or patches cannot be"):
        hooked(model).names  # noqa: B018 - that it raises is the point
