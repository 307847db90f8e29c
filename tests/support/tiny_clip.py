"""Tiny models of open_clip, written as the files that OpenClip reads."""

import json
import warnings
from pathlib import Path

import open_clip
import torch
from safetensors.torch import save_file

from vlbench.code.functions import load_object

FOLDER = Path(__file__).parents[2] / "model_adapters"
OpenClip = load_object("open_clip:OpenClip", [FOLDER])
CPU = torch.device("cpu")
TINY = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 64, "layers": [1, 1, 1, 1], "width": 8, "patch_size": None},
    "text_cfg": {"context_length": 16, "width": 32, "heads": 2, "layers": 1},
}
QUICK = {**TINY, "quick_gelu": True}
# Not the library's default, so that a test sees whether it is read.
PREPROCESSING = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "interpolation": "bilinear"}


def write_config(folder, config, preprocessing=PREPROCESSING):
    folder.mkdir(exist_ok=True)
    content = {"model_cfg": config, "preprocess_cfg": preprocessing}
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    return str(folder)


def tiny_folder(folder):
    """Write a model in open_clip's local format, with weights that no default gives."""
    path = write_config(folder, TINY)
    drawn = OpenClip(device=CPU, architecture=path, weights="random", init_seed=7).model
    save_file(drawn.state_dict(), folder / "open_clip_model.safetensors")
    return path


def archive(path):
    """Write a TorchScript archive with OpenAI's layout, fp16; return its weights in float32."""
    module = open_clip.CLIP(**TINY).eval().half()
    weights = {key: value.float() for key, value in module.state_dict().items()}
    module.attn_mask = None
    for mark in ("input_resolution", "context_length", "vocab_size"):
        module.__dict__.pop(mark, None)
        module.register_buffer(mark, torch.tensor(1))
    pixels = torch.zeros(1, 3, 64, 64).half()
    with warnings.catch_warnings(action="ignore"):
        torch.jit.trace_module(module, {"encode_image": pixels}).save(str(path))
    return weights
