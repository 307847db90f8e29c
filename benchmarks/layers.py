"""Measure all layers of a network in one pass against its output alone, as a ratio of CPU time.

Random networks, and all stages of tiny-vlm, of which the output is the last, on random pixels of
their own size, one thread, batches of 32. Both alternate in one process. The
target is a ratio of at most 1.1. Bytes are those that the store takes for an image.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from PIL import Image

import vlbench

MODELS = {
    "timm:vit_small_patch16_224": {"weights": "random"},
    "torchvision:resnet50/random": {"resize": 224, "crop": 224},
    "timm:tf_efficientnet_lite0": {"weights": "random"},
    "open_clip:ViT-B-32/random": {},
    "tiny-vlm": {"image_vector": "last_token"},
}
BATCH, ROUNDS = 32, 5
TARGET = 1.1


def seconds(work: Callable[[], Any]) -> float:
    """Return the CPU seconds that some work takes."""
    start = time.process_time()
    with torch.no_grad():
        work()
    return time.process_time() - start


def measure(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the line of a network."""
    model = vlbench.load_model(name, model_args=arguments)
    size = model.preprocess(Image.new("RGB", (224, 224))).shape
    names, pixels = model.layers(), torch.rand(BATCH, *size)
    found = model.encode_images_at(pixels[:1], names)
    kilobytes = sum(one.shape[1] for one in found.values()) * 4 / 1024
    ways = (lambda: model.encode_images_at(pixels, names), lambda: model.encode_images(pixels))
    times = [[seconds(way) for way in ways] for _ in range(ROUNDS + 1)][1:]
    best = [min(one) for one in zip(*times, strict=True)]
    return f"{name}, {len(names)}, {kilobytes:.1f}, {best[0] / best[1]:.2f}"


def main() -> None:
    """Print a line for each network."""
    torch.set_num_threads(1)
    print(f"network, layers, kB an image, all layers / output alone (target {TARGET})")
    for name, arguments in MODELS.items():
        print(measure(name, arguments), flush=True)


if __name__ == "__main__":
    main()
