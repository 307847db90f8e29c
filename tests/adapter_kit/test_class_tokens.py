"""Layers of one small network of each module of timm that mentions a class token."""

import re
from pathlib import Path

import pytest
import timm
import torch
from timm.models.coat import CoaT
from timm.models.crossvit import CrossVit
from timm.models.mvitv2 import MultiScaleVit, MultiScaleVitCfg
from timm.models.vitamin import VitCfg, VitConvCfg, _create_vitamin
from timm.models.volo import VOLO
from torchvision.transforms.functional import resize, to_tensor

from vlbench.adapter_kit.layers import HookedLayers
from vlbench.errors import CannotDo

SIZE = 64
PLAIN = {"embed_dim": 32, "num_heads": 2, "depth": 3}
SIZED = PLAIN | {"img_size": SIZE, "patch_size": 16}
FOUR = (1, 1, 1, 1)


def named(name, **options):
    return lambda: timm.create_model(name, pretrained=False, num_classes=5, **options)


def mvit():
    config = MultiScaleVitCfg(depths=FOUR, embed_dim=16, use_cls_token=True)
    return MultiScaleVit(config, img_size=SIZE, num_classes=5)


def vitamin():
    convolutions = VitConvCfg(norm_layer="layernorm2d", norm_eps=1e-6)
    config = VitCfg(
        embed_dim=(8, 16, 32), depths=(1, 1, 1), stem_width=8, conv_cfg=convolutions, head_type="1d"
    )
    options = {"class_token": True, "img_size": SIZE, "num_classes": 5}
    return _create_vitamin("vitamin_small_224", embed_cfg=config, **PLAIN, **options)


# What makes a network of each module, and which of its layers have the class token.
BLOCKS = ["blocks.0", "blocks.1", "blocks.2"]
NETWORKS = {
    "beit": (named("beit_base_patch16_224", **SIZED), BLOCKS),
    "cait": (
        named("cait_s24_224", **SIZED, depth_token_only=2),
        ["blocks_token_only.0", "blocks_token_only.1"],
    ),
    "coat": (
        lambda: CoaT(SIZE, 4, embed_dims=[32] * 4, serial_depths=FOUR, num_heads=8),
        [block for i in "1234" for block in (f"cpe{i}", f"serial_blocks{i}.0")],
    ),
    "convit": (named("convit_tiny", **SIZED | {"embed_dim": 16}, local_up_to_layer=2), BLOCKS[2:]),
    "crossvit": (
        lambda: CrossVit(
            SIZE, patch_size=(8, 16), embed_dim=(16, 32), depth=((1, 1, 0),) * 3, num_heads=(2, 2)
        ),
        [*BLOCKS, "norm.0", "norm.1"],
    ),
    "deit": (named("deit_base_distilled_patch16_224", **SIZED), BLOCKS),
    "eva": (named("eva02_base_patch14_224", **SIZED), BLOCKS),
    "mvitv2": (mvit, ["stages.0", "stages.1", "stages.2", "stages.3"]),
    "naflexvit": (named("naflexvit_base_patch16_gap", **PLAIN, class_token=True), BLOCKS),
    "pit": (
        named("pit_s_224", img_size=SIZE, base_dims=[8] * 3, heads=[1, 2, 2], depth=[1, 1, 1]),
        [],
    ),
    "vision_transformer": (named("vit_base_patch16_224", **SIZED), BLOCKS),
    "vision_transformer_relpos": (named("vit_relpos_base_patch16_cls_224", **SIZED), BLOCKS),
    "vitamin": (vitamin, BLOCKS),
    "xcit": (named("xcit_nano_12_p16_224", **SIZED), ["cls_attn_blocks.0", "cls_attn_blocks.1"]),
}
# Networks without layers, and why.
WITHOUT_LAYERS = {
    "tnt": (
        named(
            "tnt_s_patch16_224",
            img_size=SIZE,
            embed_dim=32,
            inner_dim=8,
            num_heads_outer=2,
            depth=2,
        ),
        "a TNT has no list of layers that give maps or tokens",
    ),
    "volo": (
        lambda: VOLO(FOUR, SIZE, embed_dims=[32] * 4, num_heads=[2] * 4, stem_hidden_dim=8),
        "this network has channels-first and channels-last maps, so",
    ),
}


def layers_of(model):
    def encode(pixels):
        return model.forward_head(model.forward_features(pixels), pre_logits=True)

    return HookedLayers(model.eval(), encode, lambda one: resize(to_tensor(one), [SIZE, SIZE]))


def opened(module):
    torch.manual_seed(0)
    model = NETWORKS[module][0]()
    for weight in model.parameters():
        # So that tokens count that start as zero, and branches that start a thousandth as large.
        weight.data += 0.1 * torch.randn(weight.shape)
    return model, layers_of(model)


def test_every_module_of_timm_that_mentions_a_class_token_is_tried():
    files = Path(timm.__file__).parent.glob("models/*.py")
    mention = {f.stem for f in files if re.search("(cls|class)_token", f.read_text("utf-8"))}
    assert mention == NETWORKS.keys() | WITHOUT_LAYERS.keys()


@pytest.mark.parametrize("module", NETWORKS)
def test_layers_are_named_for_the_class_token_if_it_is_among_their_tokens(module):
    _, layers = opened(module)
    named_cls = [one for one in layers.names if one.endswith("_cls")]
    assert named_cls == [f"{one}_cls" for one in NETWORKS[module][1]]
    assert len(layers.names) > 2


@pytest.mark.parametrize("module", [name for name, (_, places) in NETWORKS.items() if places])
def test_the_class_vector_is_the_token_that_the_network_puts_first(module):
    model, layers = opened(module)
    tokens_of_class = [one for name, one in model.named_parameters() if "cls_token" in name]
    pixels, outputs = torch.rand(2, 3, SIZE, SIZE), {}
    for place in NETWORKS[module][1]:
        model.get_submodule(place).register_forward_hook(
            lambda _, __, output, place=place: outputs.update({place: output})
        )
    found = layers.encode_at(pixels, [f"{place}_cls" for place in NETWORKS[module][1]])
    for place, output in outputs.items():
        tokens = output[0] if isinstance(output, tuple | list) else output
        vectors = found[f"{place}_cls"]
        assert torch.equal(vectors, tokens[:, 0])
        gradients = torch.autograd.grad(
            vectors.square().sum(), tokens_of_class, retain_graph=True, allow_unused=True
        )
        assert max(one.abs().max() for one in gradients if one is not None) > 0


@pytest.mark.parametrize("module", [name for name, (_, places) in NETWORKS.items() if places])
def test_the_class_vector_follows_the_last_patch_as_it_follows_the_first(module):
    _, layers = opened(module)
    layer = f"{NETWORKS[module][1][-1]}_cls"
    first = torch.rand(1, 3, SIZE, SIZE)
    others = first.repeat(2, 1, 1, 1)
    others[0, :, :16, :16], others[1, :, -16:, -16:] = 0, 0
    vectors = layers.encode_at(torch.cat([first, others]), [layer])[layer].detach()
    by_first, by_last = (vectors[1:] - vectors[0]).norm(dim=1)
    assert by_last > 0.1 * by_first


@pytest.mark.parametrize("module", WITHOUT_LAYERS)
def test_a_network_whose_layers_cannot_be_told_has_none(module):
    make, why = WITHOUT_LAYERS[module]
    with pytest.raises(CannotDo, match=why):
        _ = layers_of(make()).names
