"""Tiny image encoders of transformers, written as the folders that HfVision reads."""

import torch
import transformers
from tiny_joint import adapter

HfVision = adapter("hf_vision:HfVision")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
BASE = {**SIZES, "intermediate_size": 32, "image_size": 32, "patch_size": 8}
STAGES = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}
WINDOWS = {"embed_dim": 8, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}
SQUARE = {"height": 32, "width": 32}
# Not the library's defaults, so that a test sees whether they are read.
MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
NORMALISER = {"image_mean": MEAN, "image_std": STD}

SQUASHED = transformers.ViTImageProcessor(size=SQUARE, **NORMALISER)
CUT = transformers.BitImageProcessor(size={"shortest_edge": 48}, crop_size=SQUARE, **NORMALISER)
CONV = transformers.ConvNextImageProcessor(size={"shortest_edge": 32}, crop_pct=0.5, **NORMALISER)

# The class, its configuration, and an image processor.
MODELS = {
    "vit": ("ViTModel", transformers.ViTConfig(**BASE), SQUASHED),
    "dinov2": ("Dinov2Model", transformers.Dinov2Config(**BASE), CUT),
    "registers": (
        "Dinov2WithRegistersModel",
        transformers.Dinov2WithRegistersConfig(**BASE, num_register_tokens=4),
        CUT,
    ),
    "dinov3": (
        "DINOv3ViTModel",
        transformers.DINOv3ViTConfig(**BASE, num_register_tokens=4),
        transformers.DINOv3ViTImageProcessor(size=SQUARE, **NORMALISER),
    ),
    "mae": ("ViTMAEModel", transformers.ViTMAEConfig(**BASE), SQUASHED),
    "swin": (
        "SwinModel",
        transformers.SwinConfig(image_size=32, patch_size=4, **WINDOWS),
        SQUASHED,
    ),
    "convnext": ("ConvNextModel", transformers.ConvNextConfig(**STAGES), CONV),
    "siglip": ("SiglipVisionModel", transformers.SiglipVisionConfig(**BASE), SQUASHED),
}


def write_vision(folder, name):
    """Write a model whose weights all matter, and its image processor."""
    kind, config, processor = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config)
    for weight in model.parameters():
        weight.data += 0.1 * torch.randn(weight.shape)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return str(folder)
