"""Models as timm, torchvision and transformers themselves build them, with random weights.

Each pool says what a release may draw, and in its comments what it leaves out, and why.
"""

from collections.abc import Callable
from typing import NamedTuple

import timm
import tiny_dual
import tiny_vision
import tiny_vlm
import torch
import transformers
from timm.data import create_transform, resolve_model_data_config
from torch import nn
from torchvision import models as torchvision_models
from torchvision.datasets.folder import pil_loader
from transformers.image_processing_backends import PilBackend
from transformers.image_utils import load_image

from vlbench.adapter_kit.images import TOLERANCE


class Bare(NamedTuple):
    """A model of a library: how a user of vlbench names it, and what the library makes of a file.

    `given` are the arguments of `--model-args`. `read` opens a picture as the library does,
    `pixels` are [3, H, W] in [0, 1], and `features` are [N, D] of a list of pictures. vlbench's
    pixels may be `apart` from the library's.
    """

    name: str
    given: dict
    read: Callable
    pixels: Callable
    features: Callable
    apart: float = 1e-6


def read_without_alpha(file):
    """Return an image as transformers reads it, without what it keeps of a palette's alpha.

    vlbench reads every picture without alpha, for all models; so do timm, torchvision and most
    image processors. Those of CLIP and SigLIP lay on white what is transparent.
    """
    image = load_image(file)
    image.info.pop("transparency", None)
    return image


def stir(model, scale=0.5):
    """Change weights so that every one of them matters, and activations keep their scale."""
    rng = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        width = weight[0].numel() if weight.ndim > 1 else 25
        weight.data += scale * width**-0.5 * torch.randn(weight.shape, generator=rng)
    return model.eval().requires_grad_(requires_grad=False)


def settle(model, shape):
    """Let batch normalisation take over the moments of noise, so that no picture is forgotten."""
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            layer.momentum = 1.0
    model.train()(torch.randn(4, *shape))
    return model.eval()


# One or two small members of a family, with a tag that says size, normalisation and classes.
# Left out: VGG, BEiT, DINOv2 and NaFlex, whose smallest members take minutes or half a gigabyte;
# Sapiens 2, which sees no squares, and whose smallest member is as large.
TIMM = (
    *("test_vit.r160_in1k", "test_vit2.r160_in1k", "test_vit4", "test_resnet.r160_in1k"),
    *("test_convnext3.r160_in1k", "test_efficientnet_evos.r160_in1k", "test_byobnet.r160_in1k"),
    *("test_nfnet.r160_in1k", "test_mambaout", "vit_tiny_patch16_224.augreg_in21k"),
    *("deit_tiny_distilled_patch16_224.fb_in1k", "eva02_tiny_patch14_224.mim_in22k"),
    *("vit_wee_patch16_reg1_gap_256.sbb_in1k", "vit_tiny_r_s16_p8_224.augreg_in21k_ft_in1k"),
    *("convnextv2_atto.fcmae", "convnextv2_nano.fcmae_ft_in22k_in1k_384", "resnet10t.c3_in1k"),
    *("resnet18.fb_ssl_yfcc100m_ft_in1k", "resnetv2_18.ra4_e3600_r224_in1k"),
    *("tf_efficientnet_b0.ap_in1k", "tf_efficientnetv2_b3.in21k_ft_in1k", "mixnet_s.ft_in1k"),
    *("swin_tiny_patch4_window7_224.ms_in22k", "mobilenetv3_small_050.lamb_in1k"),
    *("mobilenetv4_conv_small_035", "regnety_002.pycls_in1k", "pvt_v2_b0.in1k"),
    *("poolformer_s12.sail_in1k", "edgenext_xx_small.in1k", "levit_128s.fb_dist_in1k"),
    *("ghostnet_050", "inception_next_atto.sail_in1k", "rexnet_100.nav_in1k", "starnet_s050"),
    *("tiny_vit_5m_224.dist_in22k", "visformer_tiny.in1k", "gcvit_xxtiny.in1k"),
    *("crossvit_tiny_240.in1k", "convit_tiny.fb_in1k", "cs3darknet_focus_s.ra4_e3600_r256_in1k"),
    *("dla46_c.in1k", "efficientformerv2_s0.snap_dist_in1k", "efficientvit_b0.r224_in1k"),
    *("efficientvit_m0.r224_in1k", "mobilevit_xxs.cvnets_in1k", "mobilevitv2_050.cvnets_in1k"),
    *("shvit_s1.in1k", "repvit_m0_9.dist_300e_in1k", "swiftformer_xs.dist_in1k", "pit_ti_224.in1k"),
    *("xcit_nano_12_p16_224.fb_dist_in1k", "coat_lite_tiny.in1k", "tinynet_e.in1k"),
    *("densenet121.tv_in1k", "cait_xxs24_224.fb_dist_in1k", "hrnet_w18_small.ms_in1k"),
    *("repvgg_a0.rvgg_in1k", "hardcorenas_a.miil_green_in1k", "skresnet18.ra_in1k"),
    *("maxvit_nano_rw_256.sw_in1k", "fastvit_t8.apple_in1k", "repghostnet_050.in1k"),
    *("hgnetv2_b0.ssld_stage2_ft_in1k", "hiera_tiny_224.mae", "vitamin_small_224.datacomp1b_clip"),
    *("focalnet_tiny_srf.ms_in1k", "nest_tiny", "twins_pcpvt_small.in1k", "botnet26t_256.c1_in1k"),
    *("resmlp_12_224.fb_in1k", "gmlp_s16_224.ra3_in1k", "mvitv2_tiny.fb_in1k", "mobileone_s0"),
    *("efficientformer_l1.snap_dist_in1k", "selecsls42", "ese_vovnet19b_slim", "csatv2.r512_in1k"),
    *("gernet_s.idstcv_in1k", "coatnet_pico_rw_224", "tresnet_m.miil_in1k", "davit_tiny.msft_in1k"),
)


def bare_timm(name, folder):
    """Return a model of timm, whose random weights lie in a file."""
    torch.manual_seed(0)
    model = stir(timm.create_model(name))
    config = resolve_model_data_config(model)
    settle(model, config["input_size"])
    torch.save(model.state_dict(), folder / "model.pt")
    steps = create_transform(**config, is_training=False)
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))

    def features(images):
        states = model.forward_features(torch.stack([steps(image) for image in images]))
        return model.forward_head(states, pre_logits=True)

    given = {"weights": str(folder / "model.pt")}
    return Bare(f"timm:{name}", given, pil_loader, lambda one: steps(one) * std + mean, features)


# The last layer with weights, of which the features are the inputs. Left out: AlexNet, VGG and
# ViT, whose smallest members have 60 to 130 million weights.
TORCHVISION = {
    "resnet18": "fc",
    "resnext50_32x4d": "fc",
    "googlenet": "fc",
    "inception_v3": "fc",
    "shufflenet_v2_x0_5": "fc",
    "regnet_y_400mf": "fc",
    "densenet121": "classifier",
    "mobilenet_v2": "classifier.1",
    "mobilenet_v3_small": "classifier.3",
    "mnasnet0_5": "classifier.1",
    "efficientnet_b0": "classifier.1",
    "efficientnet_v2_s": "classifier.1",
    "squeezenet1_1": "classifier.1",
    "convnext_tiny": "classifier.2",
    "swin_t": "head",
    "swin_v2_t": "head",
    "maxvit_t": "classifier.5",
}


def bare_torchvision(name, folder):
    """Return a model of torchvision, whose random weights lie in a file in the place of a tag's."""
    torch.manual_seed(0)
    twice = {"transform_input": True, "init_weights": False}
    options = twice if name in {"googlenet", "inception_v3"} else {}
    model = stir(torchvision_models.get_model(name, weights=None, **options))
    steps = torchvision_models.get_model_weights(name).IMAGENET1K_V1.transforms()
    settle(model, (3, *steps.crop_size * 2))
    torch.save(model.state_dict(), folder / "model.pt")
    model.set_submodule(TORCHVISION[name], nn.Identity())
    if name.startswith("squeezenet"):
        # After its last convolution come a ReLU and the mean over positions.
        model.classifier[2] = nn.Identity()
    mean, std = (torch.tensor(one).view(3, 1, 1) for one in (steps.mean, steps.std))

    def features(images):
        return model(torch.stack([steps(image) for image in images]))

    given = {"weights": str(folder / "model.pt")}
    called = f"torchvision:{name}/IMAGENET1K_V1"
    return Bare(called, given, pil_loader, lambda one: steps(one) * std + mean, features)


BASE, CONV = tiny_vision.BASE, tiny_vision.STAGES
WINDOWS = {"image_size": 32, "patch_size": 4, **tiny_vision.WINDOWS}
SIZES = {"size": tiny_vision.SQUARE, **tiny_vision.NORMALISER}
CUT = {"size": {"shortest_edge": 40}, "crop_size": tiny_vision.SQUARE, **tiny_vision.NORMALISER}
PYRAMID = {
    "depths": [1, 1, 1, 1],
    "hidden_sizes": [8, 8, 16, 16],
    "num_attention_heads": [1, 1, 2, 2],
    "sr_ratios": [4, 2, 1, 1],
}
SEGMENTS = {"depths": [1] * 4, "hidden_sizes": [8, 8, 16, 16], "num_attention_heads": [1, 1, 2, 2]}

# The class, its configuration and its image processor. Left out: SigLIP 2 (NaFlex), Pixtral and
# SAM, whose views of pictures are not of one size; DETR and its kin, which find objects; VideoMAE
# and its kin, which see no single images; PVT and InternVL's image encoder, of which the adapter
# says that they give no vector of an image: their configurations do not say where their patches
# stand; RADIO and Sapiens 2, which no adapter reads; ALIGN's and BLIP's image encoders, which the
# library opens by no AutoModel; DiNAT, which wants a package that nobody else does.
ENCODERS = {
    "ViT": (BASE, "ViT", SIZES),
    "DeiT": (BASE, "DeiT", CUT),
    "ViTMSN": (BASE, "ViT", SIZES),
    "ViTMAE": (BASE, "ViT", SIZES),
    "IJepa": (BASE, "ViT", SIZES),
    "Dinov2": (BASE, "Bit", CUT),
    "Dinov2WithRegisters": ({**BASE, "num_register_tokens": 4}, "Bit", CUT),
    "DINOv3ViT": ({**BASE, "num_register_tokens": 4}, "DINOv3ViT", SIZES),
    "Beit": (BASE, "Beit", {**CUT, "size": {"height": 40, "width": 44}, "do_center_crop": True}),
    "Data2VecVision": (BASE, "Beit", SIZES),
    "Swin": (WINDOWS, "ViT", SIZES),
    "Swinv2": (WINDOWS, "ViT", SIZES),
    "FocalNet": ({"image_size": 32, "embed_dim": 8, "depths": [1, 1]}, "Bit", CUT),
    "ConvNext": (CONV, "ConvNext", {"size": {"shortest_edge": 32}, "crop_pct": 0.5}),
    "ConvNextV2": (CONV, "ConvNext", {"size": {"shortest_edge": 384}}),
    "ResNet": ({"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}, "ConvNext", {}),
    "RegNet": (
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "groups_width": 4},
        *("ConvNext", {"size": {"shortest_edge": 32}}),
    ),
    "Bit": (
        {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1], "num_groups": 4},
        *("Bit", CUT),
    ),
    "PoolFormer": (
        {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16]},
        *("PoolFormer", {"size": {"shortest_edge": 32}, "crop_size": tiny_vision.SQUARE}),
    ),
    "Levit": (
        {"image_size": 64, "hidden_sizes": [32, 32, 32], "num_attention_heads": [2, 2, 2]}
        | {"depths": [1, 1, 1], "key_dim": [8, 8, 8]},
        *("Levit", {"size": {"shortest_edge": 64}, "crop_size": {"height": 64, "width": 64}}),
    ),
    "PvtV2": ({**PYRAMID, "image_size": 32}, "Pvt", SIZES),
    "MobileNetV1": ({"image_size": 32, "depth_multiplier": 0.25}, "MobileNetV1", CUT),
    "MobileNetV2": ({"image_size": 32, "depth_multiplier": 0.25}, "MobileNetV2", CUT),
    "MobileViT": (
        {"image_size": 64, "hidden_sizes": [16, 16, 16], "neck_hidden_sizes": [8] * 7}
        | {"num_attention_heads": 2},
        *("MobileViT", {"size": {"shortest_edge": 72}, "crop_size": {"height": 64, "width": 64}}),
    ),
    "EfficientNet": (
        {**tiny_dual.EFFICIENT, "width_coefficient": 16 / 1280},
        *("EfficientNet", {**SIZES, "rescale_offset": True, "include_top": True}),
    ),
    "MobileViTV2": (
        {"image_size": 64, "width_multiplier": 0.25, "n_attn_blocks": [1, 1, 1]},
        *("MobileViT", {"size": {"shortest_edge": 72}, "crop_size": {"height": 64, "width": 64}}),
    ),
    "Hiera": (
        {"image_size": [32, 32], "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2]}
        | {"num_query_pool": 1, "masked_unit_size": [4, 4]},
        *("Bit", CUT),
    ),
    "SwiftFormer": ({"image_size": 32, "depths": [1] * 4, "embed_dims": [8] * 4}, "ViT", SIZES),
    "TextNet": (
        {"image_size": [32, 32], "stem_out_channels": 8, "hidden_sizes": [8] * 5},
        *("Bit", CUT),
    ),
    "Segformer": (SEGMENTS, "Segformer", {"size": {"height": 64, "width": 64}}),
    "GLPN": (SEGMENTS, "ViT", SIZES),
    "DINOv3ConvNext": ({"hidden_sizes": [8] * 4, "depths": [1] * 4}, "DINOv3ViT", SIZES),
    "Cvt": ({"embed_dim": [8, 16, 16], "num_heads": [1, 2, 2], "depth": [1, 2, 3]}, "ViT", SIZES),
    "DonutSwin": (WINDOWS, "ViT", SIZES),
    "DPT": ({**BASE, "backbone_out_indices": [0, 1, 1, 1]}, "ViT", SIZES),
    "Pixio": (BASE, "Bit", CUT),
    "MLCDVision": (BASE, "CLIP", CUT),
    "Aimv2Vision": (BASE, "CLIP", CUT),
    "Tipsv2Vision": (BASE, "ViT", SIZES),
    "SiglipVision": (BASE, "Siglip", SIZES),
    "CLIPVision": (BASE, "CLIP", CUT),
    "ChineseCLIPVision": (BASE, "ChineseCLIP", CUT),
}


def bare_encoder(name, folder):
    """Return an image encoder of transformers, saved with its image processor."""
    torch.manual_seed(0)
    sizes, kind, made = ENCODERS[name]
    config = getattr(transformers, f"{name}Config")(**sizes)
    model = getattr(transformers, f"{name}Model")(config)
    stir(model, SCALES.get(name, USUAL_SCALE)).save_pretrained(folder)
    getattr(transformers, f"{kind}ImageProcessor")(**made).save_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    extra = unmasked(model)

    def features(inputs):
        output = model(**inputs, **{k: v.expand(len(inputs["pixel_values"]), -1) for k, v in extra})
        pooled = getattr(output, "pooler_output", None)
        if pooled is not None:
            return pooled.flatten(1)
        states = output.last_hidden_state
        # Without a pooler the first token, or the mean of the patches where none is before them.
        if states.ndim == 4:
            return states.mean((2, 3))
        return states.mean(1) if name == "IJepa" else states[:, 0]

    return of_folder(folder, features)


# Scales of weights at which models of transformers neither forget their pictures nor grow features
# of thousands. The library draws small weights.
SCALES = {"EfficientNet": 3, "MobileViT": 3, "MobileViTV2": 3, "SwiftFormer": 0.5, "Align": 0.5}
USUAL_SCALE = 1.4


def unmasked(model):
    """Return the inputs by which a masked autoencoder hides nothing and keeps patches in order."""
    if model.config.model_type != "vit_mae":
        return []
    model.config.mask_ratio = 0.0
    return [("noise", torch.arange(16.0)[None])]


def of_folder(folder, features):
    """Return a model of transformers whose features are those of its processor's inputs.

    The processor is the one that resizes by Pillow, as vlbench does: the other, by torchvision,
    rounds otherwise. The pixels are its own before it scales and normalises them. DINOv3 has the
    other alone; there the pixels may differ by the TOLERANCE of `vlbench.adapter_kit.images`, and
    the features are those of pictures that Pillow resized.
    """
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    by_pillow = isinstance(processor, PilBackend)
    steps = ("do_normalize", "do_flip_channel_order", "include_top", "rescale_offset")
    less = {step: False for step in steps if hasattr(processor, step)}

    def pixels(image):
        return processor(image, **less, return_tensors="pt").pixel_values[0]

    def vectors(images):
        resized = [one.resize((32, 32), processor.resample) for one in images]
        return features(processor(images if by_pillow else resized, return_tensors="pt"))

    apart = 1e-6 if by_pillow else TOLERANCE
    return Bare(f"hf:{folder}", {}, read_without_alpha, pixels, vectors, apart)


DUAL = {
    "text_config": {**tiny_dual.TEXT, **tiny_dual.ENDS},
    "vision_config": tiny_dual.VISION,
    "projection_dim": 8,
}
# Left out: SigLIP 2 (NaFlex), whose views of pictures are not of one size; BLIP-2, which compares
# many vectors of a picture with one of a text; VideoPRISM and TIPSv2, whose towers are no
# configurations of their own that could be made tiny in one line.
DUALS = {
    "CLIP": ("CLIP", CUT),
    "Siglip": ("Siglip", SIZES),
    "Align": ("EfficientNet", {**SIZES, "rescale_offset": True, "include_top": True}),
    "ChineseCLIP": ("ChineseCLIP", CUT),
    "AltCLIP": ("CLIP", CUT),
    "CLIPSeg": ("ViT", SIZES),
    "MetaClip2": ("CLIP", CUT),
    "Blip": ("Blip", SIZES),
}


def dual_config(name):
    """Return the configuration of a tiny dual encoder."""
    more = {
        "Align": {"vision_config": tiny_dual.EFFICIENT, "projection_dim": 48},
        "Siglip": {"text_config": {**DUAL["text_config"], "projection_size": 16}},
        "AltCLIP": {"text_config": {**DUAL["text_config"], "project_dim": 8}},
    }
    return getattr(transformers, f"{name}Config")(**DUAL | more.get(name, {}))


def bare_dual(name, folder):
    """Return a dual encoder of transformers, saved with its tokenizer and image processor."""
    torch.manual_seed(0)
    kind, made = DUALS[name]
    processor = getattr(transformers, f"{kind}ImageProcessor")(**made)
    model = getattr(transformers, f"{name}Model")(dual_config(name))
    stir(model, SCALES.get(name, USUAL_SCALE))
    tiny_dual.save(folder, model, processor, ["input_ids", "attention_mask"])
    model = transformers.AutoModel.from_pretrained(folder).eval()

    def features(inputs):
        output = model.get_image_features(**inputs)
        return getattr(output, "pooler_output", output)

    return of_folder(folder, features)


# The families that `tiny_vlm` writes. Left out: every other one, until it has a writer there.
VLMS = tuple(tiny_vlm.WRITERS)

# How a processor leaves a square of 32 whole: no tiles, and no enlarging before they are cut.
UNTILED = {"smolvlm": {"do_image_splitting": False, "size": {"longest_edge": 32}}}


def bare_vlm(name, folder):
    """Return a generative model, which sees a picture squashed to one square without tiles."""
    tiny_vlm.WRITERS[name](folder)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder).image_processor
    square = transformers.SiglipImageProcessorPil(size={"height": 32, "width": 32}, resample=3)

    def squashed(image):
        pixels = square(image, do_rescale=False, do_normalize=False, return_tensors="pt")
        return pixels.pixel_values[0]

    def features(images):
        return torch.stack([mean_token(model, processor, name, squashed(one)) for one in images])

    given = {"size": 32} if name == "qwen3" else {}
    return Bare(
        f"hf:{folder}", given, read_without_alpha, lambda one: squashed(one) / 255, features
    )


def mean_token(model, processor, name, square):
    """Return the mean of the projected image tokens of a square, [D]."""
    inputs = processor(square.byte(), return_tensors="pt", **UNTILED.get(name, {}))
    unused = {"num_patches", "num_crops", "rows", "cols"}
    kept = {key: value for key, value in inputs.items() if key not in unused}
    tokens = model.get_image_features(**kept).pooler_output[0]
    # LLaVA-OneVision adds a tile and newlines to the view, after it.
    return tokens.reshape(-1, tokens.shape[-1])[:16].mean(0)


# The pool, how many of it a release draws, and what builds one of its names in a folder.
POOLS = {
    "timm": (TIMM, 4, bare_timm),
    "torchvision": (tuple(TORCHVISION), 2, bare_torchvision),
    "encoder": (tuple(ENCODERS), 3, bare_encoder),
    "dual": (tuple(DUALS), 1, bare_dual),
    "vlm": (VLMS, 2, bare_vlm),
}
