"""tiny-rn and tiny-rn-robust: a ResNet of timm that tells categories of `objects`.

The robust one is adversarially trained (Madry et al. 2018, arXiv:1706.06083, eq. 2.1): each batch
is first attacked by PGD in the Linf ball. Departures, for the time it takes: it starts from
tiny-rn's weights, two steps an attack from a random start, and the ball grows to its full size over
the first fifth of the training.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy

from tiny.training import Batch, Plan, Training, train
from tiny.world import Examples, World
from vlbench.data.scenes.world import SIDE

ARCHITECTURE = "resnet18"
SHAPE = {
    "layers": [1, 1, 1, 1],
    "channels": [32, 64, 96, 128],
    "stem_type": "deep",
    "stem_width": 16,
}
MEAN, STD = 0.5, 0.25

# Of the ball in which the robust model is trained; the attack's steps, and their share of it.
RADIUS = 4 / 255
ATTACK_STEPS = 2
STEP_SHARE = 0.6
GROWTH = 0.2

# How the images vary in training: turned by degrees, scaled and moved by shares of the side.
TURN, SCALE, SHIFT = 20.0, 0.15, 0.12


class Normalised(nn.Module):
    """A classifier of timm that takes pixels in 0..1."""

    def __init__(self, classes: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            model = timm.create_model(
                ARCHITECTURE, num_classes=classes, zero_init_last=False, **SHAPE
            )
        self.inner = model.to(memory_format=torch.channels_last)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return logits [N, C] for pixels [N, 3, 64, 64] in 0..1."""
        scores: Tensor = self.inner((pixels - MEAN) / STD)
        return scores


def train_plain(world: World, folder: Path, plan: Plan) -> Training:
    """Train the supervised model on `objects` and write it."""
    model = Normalised(len(world.classes), plan.seed)
    loss_of = partial(_plain_loss, model, world.objects)
    told = train("tiny-rn", model, loss_of, len(world.objects.labels), plan)
    save(model.inner, world.classes, SHAPE, SIDE, folder)
    return told


def train_robust(world: World, folder: Path, plan: Plan) -> Training:
    """Train the supervised model, read from the folder `rn` beside, on attacked images."""
    model = Normalised(len(world.classes), plan.seed)
    model.inner.load_state_dict(load_file(folder.with_name("rn") / "model.safetensors"))
    loss_of = partial(_robust_loss, model, world.objects)
    told = train("tiny-rn-robust", model, loss_of, len(world.objects.labels), plan)
    save(model.inner, world.classes, SHAPE, SIDE, folder)
    return told


def attack(
    model: nn.Module,
    pixels: Tensor,
    labels: Tensor,
    *,
    radius: float,
    steps: int,
    step: float,
    rng: torch.Generator,
) -> Tensor:
    """Return pixels in 0..1 within `radius` of the given ones, Linf, that PGD finds for a loss."""
    start = radius * (2 * torch.rand(pixels.shape, generator=rng) - 1)
    attacked = (pixels + start).clamp(0, 1)
    for _ in range(steps):
        attacked.requires_grad_()
        (slope,) = torch.autograd.grad(cross_entropy(model(attacked), labels), attacked)
        moved = attacked.detach() + step * slope.sign()
        attacked = moved.clamp(pixels - radius, pixels + radius).clamp(0, 1)
    return attacked.detach()


def vary(pixels: Tensor, rng: torch.Generator) -> Tensor:
    """Return images turned, scaled, moved, mirrored and recoloured at random, in 0..1."""
    count = len(pixels)

    def draw(*shape: int) -> Tensor:
        return 2 * torch.rand(count, *shape, generator=rng) - 1

    angle, scale, mirror = math.radians(TURN) * draw(), 1 + SCALE * draw(), draw().sign()
    across = torch.stack([angle.cos() * scale * mirror, -angle.sin() * scale, SHIFT * draw()], 1)
    down = torch.stack([angle.sin() * scale * mirror, angle.cos() * scale, SHIFT * draw()], 1)
    grid = functional.affine_grid(
        torch.stack([across, down], 1), list(pixels.shape), align_corners=False
    )
    moved = functional.grid_sample(pixels, grid, padding_mode="reflection", align_corners=False)
    channels = torch.rand(count, 3, generator=rng).argsort(1)
    recoloured = moved[torch.arange(count)[:, None], channels]
    contrast, brightness = 1 + 0.3 * draw(1, 1, 1), 0.15 * draw(1, 1, 1)
    varied = ((recoloured - 0.5) * contrast + 0.5 + brightness).clamp(0, 1)
    return varied.contiguous(memory_format=torch.channels_last)


def _drawn(examples: Examples, batch: Batch) -> tuple[Tensor, Tensor]:
    pixels = examples.images[batch.rows].float() / 255
    return vary(pixels, batch.rng), examples.labels[batch.rows]


def _plain_loss(model: nn.Module, examples: Examples, batch: Batch) -> Tensor:
    pixels, labels = _drawn(examples, batch)
    return cross_entropy(model(pixels), labels, label_smoothing=0.1)


def _robust_loss(model: nn.Module, examples: Examples, batch: Batch) -> Tensor:
    pixels, labels = _drawn(examples, batch)
    radius = RADIUS * min(1.0, (batch.done + 0.01) / GROWTH)
    options: dict[str, Any] = {"steps": ATTACK_STEPS, "step": STEP_SHARE * radius}
    attacked = attack(model, pixels, labels, radius=radius, rng=batch.rng, **options)
    return cross_entropy(model(attacked), labels, label_smoothing=0.1)


def save(model: nn.Module, classes: Sequence[str], shape: Any, side: int, folder: Path) -> None:
    """Write the folder as timm saves a model; weights in half precision."""
    config = {
        "architecture": ARCHITECTURE,
        "num_classes": len(classes),
        "num_features": model.num_features,
        "label_names": list(classes),
        "model_args": {key: value for key, value in shape.items() if key != "num_classes"},
        "pretrained_cfg": {
            "input_size": [3, side, side],
            "mean": [MEAN] * 3,
            "std": [STD] * 3,
            "interpolation": "bicubic",
            "crop_pct": 1.0,
            "first_conv": "conv1.0",
            "classifier": "fc",
            "num_classes": len(classes),
        },
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    state = {
        key: value.half().contiguous() if value.is_floating_point() else value
        for key, value in model.state_dict().items()
    }
    save_file(state, folder / "model.safetensors", {"format": "pt"})
