"""tiny-clip: an open_clip ResNet and text tower, trained as CLIP is (arXiv:2103.00020, figure 3).

Departures, for the time it takes: each image meets two of its five captions at a step, and the
vocabulary is that of the captions.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import open_clip
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy

from tiny import words
from tiny.training import Batch, Plan, Training, train
from tiny.world import Examples, World, both

VISION = {"image_size": 64, "layers": [1, 1, 1, 1], "width": 16, "patch_size": None}
TEXT = {
    "hf_tokenizer_name": "the files beside this one",
    "context_length": words.LENGTH,
    "width": 64,
    "heads": 2,
    "layers": 2,
    "pool_type": "eos",
    "eos_id": words.END,
    "pad_id": words.PAD,
}
MEAN, STD = 0.5, 0.25

# Captions of an image at each step, pixels by which an image is moved, and the largest scale.
CAPTIONS = 2
SHIFT = 3
MAX_SCALE = 100.0


def train_clip(world: World, folder: Path, plan: Plan) -> Training:
    """Train on the captions of both configurations, write the folder."""
    examples = both(world)
    tokenizer = words.learn((caption for five in examples.captions for caption in five), folder)
    text = TEXT | {"vocab_size": len(tokenizer)}
    config = {"embed_dim": 64, "vision_cfg": VISION, "text_cfg": text}
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(plan.seed)
        model = _build(config)
    texts = torch.stack([_tokens(tokenizer, five) for five in examples.captions])
    loss_of = partial(_loss, model, examples, texts)
    told = train("tiny-clip", model, loss_of, len(examples.images), plan)
    _save(model, config, folder)
    return told


def _build(config: dict[str, Any]) -> Any:
    """Return a fresh model whose residual branches live: the library lets them begin at zero."""
    model = open_clip.CLIP(**config)
    for layer in model.visual.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
    model.visual.to(memory_format=torch.channels_last)
    return model


def _tokens(tokenizer: Any, captions: list[str]) -> Tensor:
    """Return the tokens of an image's captions, int64 [5, LENGTH]."""
    options = {"padding": "max_length", "truncation": True, "max_length": words.LENGTH}
    tokens: Tensor = tokenizer(captions, return_tensors="pt", **options).input_ids
    return tokens


def _loss(model: Any, examples: Examples, texts: Tensor, batch: Batch) -> Tensor:
    """Return the symmetric loss of a batch's images with some of their captions."""
    pixels = move(examples.images[batch.rows].float() / 255, batch.rng)
    images = functional.normalize(model.encode_image((pixels - MEAN) / STD), dim=1)
    order = torch.rand(len(batch.rows), texts.shape[1], generator=batch.rng).argsort(1)
    chosen = texts[batch.rows[:, None], order[:, :CAPTIONS]].transpose(0, 1)
    captions = functional.normalize(model.encode_text(chosen.flatten(0, 1)), dim=1)
    scale = model.logit_scale.exp().clamp(max=MAX_SCALE)
    own = torch.arange(len(images))
    losses = []
    for part in captions.chunk(CAPTIONS):
        logits = scale * images @ part.T
        losses += [cross_entropy(logits, own), cross_entropy(logits.T, own)]
    return torch.stack(losses).mean()


def move(pixels: Tensor, rng: torch.Generator) -> Tensor:
    """Return images moved by a few pixels each, the border drawn out."""
    height, width = pixels.shape[-2:]
    padded = functional.pad(pixels, (SHIFT,) * 4, mode="replicate")
    steps = torch.randint(2 * SHIFT + 1, (len(pixels), 2, 1), generator=rng)
    rows, columns = steps[:, 0] + torch.arange(height), steps[:, 1] + torch.arange(width)
    index = torch.arange(len(pixels))[:, None, None]
    moved = padded.permute(0, 2, 3, 1)[index, rows[:, :, None], columns[:, None]]
    return moved.permute(0, 3, 1, 2)


def _save(model: Any, config: dict[str, Any], folder: Path) -> None:
    """Write the folder as open_clip's local format; weights in half precision."""
    seen = {"mean": [MEAN] * 3, "std": [STD] * 3, "interpolation": "bicubic"}
    content = {"model_cfg": config, "preprocess_cfg": seen}
    (folder / "open_clip_config.json").write_text(json.dumps(content, indent=2) + "\n")
    state = {
        key: value.half().contiguous() if value.is_floating_point() else value.contiguous()
        for key, value in model.state_dict().items()
    }
    save_file(state, folder / "open_clip_model.safetensors", {"format": "pt"})
