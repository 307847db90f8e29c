"""Tiny models of transformers, written as the folders that adapters read."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from vlbench.capabilities import Picture, Regions
from vlbench.check import check_adapter
from vlbench.code.functions import load_object

CPU = torch.device("cpu")
VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] a cat sat on the mat two dog dogs , ! ##s"
WORDS = VOCABULARY.split()
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
TINY = {**SIZES, "intermediate_size": 32, "max_position_embeddings": 16, "vocab_size": len(WORDS)}
TEXTS = ["A cat sat on the mats!", "two dogs", "the cat"]
# The ids of the second text, and the spans of its tokens.
TWO_DOGS, SPANS = [[2, 11, 13, 3]], [(0, 3), (4, 8)]


def adapter(name):
    return load_object(name, [Path(__file__).parents[2] / "model_adapters"])


def enlarge(model, scale):
    """Make weights so large that every one of them matters."""
    rng = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.data += scale * torch.randn(weight.shape, generator=rng)


def save(folder, model, scale=0.3):
    """Write a model, with weights large enough for every one of them to matter, and its words."""
    enlarge(model, scale)
    model.save_pretrained(folder)
    return write_words(folder)


def write_words(folder):
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return str(folder)


def copy_without(key, folder, target):
    """Copy a saved model, but leave out one of its weights."""
    for file in Path(folder).iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    state = load_file(f"{folder}/model.safetensors")
    del state[key]
    save_file(state, target / "model.safetensors", {"format": "pt"})
    return str(target)


def noise(width, height, seed=0):
    """Return an image of noise."""
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def as_bytes(pixels):
    """Return pixels in [0, 1] as an array of uint8 [H, W, 3]."""
    return (pixels * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def picture(regions, width, seed=0, size=(60, 40)):
    """Return noise with that many regions, whose boxes lie inside it."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 0.5, (regions, 2, 2)) + np.array([[0, 0], [0.5, 0.5]])
    boxes = torch.tensor((corners * size).reshape(regions, 4), dtype=torch.float32)
    vectors = torch.tensor(rng.standard_normal((regions, width)), dtype=torch.float32)
    noise = Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    return Picture(noise, Regions(boxes, vectors, None, None, size))


def broken_promises(model, **options):
    """Return what `vlbench check` finds wrong with an adapter."""
    return [finding for finding in check_adapter(model, **options) if not finding.ok]
