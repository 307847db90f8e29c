"""tiny-eyes: a ResNet that is taught by drawings alone, without a label or a text.

SimCLR (arXiv:2002.05709, section 2.1) on the proposals of drawings: two varied views of a crop are
to be nearer to each other than to those of others. Departures, for the time it takes: a small
network, 32 x 32 pixels, and batches of hundreds; and, since views are recoloured, a thumbnail of
each must also be drawn from its vector, which keeps the colours.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy

from tiny import cnn
from tiny.training import Batch, Plan, Training, train
from tiny.world import Examples, World
from vlbench.data.crops import crop_box

# The sides of what it sees and of what it draws.
SIDE, THUMBNAIL = 32, 4

SHAPE = cnn.SHAPE | {"channels": [32, 64, 96, 128], "num_classes": 0}

# Of the projection, and of the softmax over views.
PROJECTED, TEMPERATURE = 64, 0.2

# The weight of the loss of the thumbnail.
DRAWN = 2.0


class Learner(nn.Module):
    """The network that is kept, and what only its training needs."""

    def __init__(self) -> None:
        super().__init__()
        model = timm.create_model(cnn.ARCHITECTURE, zero_init_last=False, **SHAPE)
        self.inner = model.to(memory_format=torch.channels_last)
        width = model.num_features
        hidden = [nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU()]
        self.project = nn.Sequential(*hidden, nn.Linear(width, PROJECTED))
        self.thumbnail = nn.Linear(width, 3 * THUMBNAIL**2)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the vectors [N, D] of pixels [N, 3, 32, 32] in 0..1."""
        vectors: Tensor = self.inner((pixels - cnn.MEAN) / cnn.STD)
        return vectors


def train_eyes(world: World, folder: Path, plan: Plan) -> Training:
    """Train on the proposals of `scenes`, write the folder."""
    crops = read(world.scenes)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(plan.seed)
        learner = Learner()
    told = train("tiny-eyes", learner, partial(_loss, learner, crops), len(crops), plan)
    cnn.save(learner.inner, [], SHAPE, SIDE, folder)
    return told


def read(examples: Examples) -> Tensor:
    """Return all proposals as an adapter that encodes crops sees them, uint8 [M, 3, 32, 32]."""
    pictures = (Image.fromarray(one) for one in examples.images.permute(0, 2, 3, 1).numpy())
    crops = [
        np.asarray(crop_box(picture, box).resize((SIDE, SIDE), Image.Resampling.BICUBIC))
        for picture, regions in zip(pictures, examples.regions, strict=True)
        for box in regions.boxes.tolist()
    ]
    return torch.from_numpy(np.stack(crops)).permute(0, 3, 1, 2).contiguous()


def _loss(learner: Learner, crops: Tensor, batch: Batch) -> Tensor:
    """Return the loss of telling each crop's second view from all others, and of thumbnails."""
    pixels = crops[batch.rows].float() / 255
    views = torch.cat([cnn.vary(pixels, batch.rng), cnn.vary(pixels, batch.rng)])
    vectors = learner(views.contiguous(memory_format=torch.channels_last))
    found = functional.normalize(learner.project(vectors), dim=1)
    others = (found @ found.T / TEMPERATURE).fill_diagonal_(-torch.inf)
    told_apart = cross_entropy(others, torch.arange(len(views)).roll(len(pixels)))
    small = functional.adaptive_avg_pool2d(views, THUMBNAIL).flatten(1)
    drawn = functional.mse_loss(learner.thumbnail(vectors), small) / small.var()
    return told_apart + DRAWN * drawn
