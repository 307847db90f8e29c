"""What an image costs the listed models of today: parameters, memory, FLOPs, an estimate of time.

Run: python benchmarks/flops.py [TFLOP/s]. Nothing is downloaded: models are built from the
libraries' own configurations on PyTorch's meta device, without memory, and their operations are
counted; only Qwen3-VL's vision encoder has to run. The lines of models.yaml have these numbers
under `parameters` and `cost`, which a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

# Qwen3-VL-2B: a Qwen3 of 1.7 billion parameters and a ViT-L with three deep connections.
QWEN_WORDS = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
QWEN_VISION = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_heads": 16,
    "out_hidden_size": QWEN_WORDS["hidden_size"],
    "deepstack_visual_indexes": [5, 11, 17],
}


class Counted(NamedTuple):
    """Numbers in a model, and floating-point operations of its image encoder for one image."""

    parameters: int
    flops: int


def open_clip_model(name: str) -> tuple[nn.Module, Callable[[], object]]:
    """Return a dual encoder of open_clip and what encodes one image."""
    import open_clip  # noqa: PLC0415 - takes seconds, as do the others

    model = open_clip.create_model(name, load_weights=False, pretrained_text=False, device="meta")
    return model, lambda: model.encode_image(torch.empty(1, 3, 224, 224))


def vision_model(kind: str, **config: Any) -> tuple[nn.Module, Callable[[], object]]:
    """Return an image encoder of transformers and what encodes one image."""
    import transformers  # noqa: PLC0415

    model = transformers.AutoModel.from_config(getattr(transformers, kind)(**config))
    return model, lambda: model(pixel_values=torch.empty(1, 3, 224, 224))


def resnet50() -> tuple[nn.Module, Callable[[], object]]:
    """Return ResNet-50 and what it does with one image of 224 x 224."""
    from torchvision.models import resnet50 as built  # noqa: PLC0415

    model = built()
    return model, lambda: model(torch.empty(1, 3, 224, 224))


def qwen_model(side: int) -> tuple[nn.Module, Callable[[], object]]:
    """Return Qwen3-VL-2B and what its vision encoder does with one square image."""
    import transformers  # noqa: PLC0415

    config = transformers.Qwen3VLConfig(
        text_config=QWEN_WORDS, vision_config=QWEN_VISION, tie_word_embeddings=True
    )
    model = transformers.Qwen3VLForConditionalGeneration(config)
    model.tie_weights()
    count, depth = side // config.vision_config.patch_size, 2 * 3  # two frames of three channels

    def see() -> object:
        # Its numbers of rows are read from the grid, so that this runs, without weights.
        vision = model.model.visual.to_empty(device="cpu")
        with torch.device("cpu"):
            pixels = torch.zeros(count * count, depth * config.vision_config.patch_size**2)
            return vision(pixels, torch.tensor([[1, count, count]]))

    return model, see


# What builds each model, by its name in models.yaml.
BUILT: Mapping[str, Callable[[], tuple[nn.Module, Callable[[], object]]]] = {
    "clip-rn50": partial(open_clip_model, "RN50-quickgelu"),
    "clip-vit-b-32": partial(open_clip_model, "ViT-B-32-quickgelu"),
    "siglip2-base": partial(open_clip_model, "ViT-B-16-SigLIP2"),
    "dinov2-small": partial(
        vision_model,
        "Dinov2Config",
        hidden_size=384,
        num_attention_heads=6,
        image_size=518,
        patch_size=14,
    ),
    "dinov3-small": partial(vision_model, "DINOv3ViTConfig", num_register_tokens=4),
    "qwen3-vl-2b": partial(qwen_model, 448),
    **dict.fromkeys(("rn50", "ar-l2", "ar-linf4", "ar-linf8"), resnet50),
}


def counted(build: Callable[[], tuple[nn.Module, Callable[[], object]]]) -> Counted:
    """Return what a model costs, built and run without memory."""
    with torch.device("meta"):
        model, run = build()
        model.eval().requires_grad_(requires_grad=False)
        with FlopCounterMode(display=False) as operations:
            run()
    numbers = sum(one.numel() for one in model.parameters())
    return Counted(numbers, operations.get_total_flops())


def main(teraflops: float) -> None:
    """Print one line per model."""
    for name, build in BUILT.items():
        cost = counted(build)
        print(
            f"{name}: {cost.parameters:,} parameters, {cost.parameters * 4 / 1e9:.2f} GB as "
            f"float32, {cost.flops / 1e9:.1f} GFLOP per image, estimated "
            f"{cost.flops / teraflops / 1e9:.2g} ms at {teraflops:g} TFLOP/s"
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 10.0)
