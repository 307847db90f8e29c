"""A linear map from image features to a language space, of the code of arXiv:2104.08313.

The map has no bias. The logit of a class is the dot product of the mapped image with the vector of
its words. With p the softmax over all K classes and y the right class, the loss is the mean over
images of (sum over c of max(0, 1 - p_y + p_c) - 1) / (K - 1).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import multi_margin_loss
from torch.optim.lr_scheduler import StepLR


class ProjectionTraining(NamedTuple):
    """How a map is trained with Adam; the learning rate is halved every ten epochs."""

    epochs: int = 20
    batch_size: int = 80
    learning_rate: float = 1e-3
    weight_decay: float = 5e-4


# As in the code of arXiv:2104.08313.
CODE_TRAINING = ProjectionTraining()


class LabelledFeatures(NamedTuple):
    """Features [N, D] of images with labels [N]."""

    features: Tensor
    label: Tensor


def train_projection(
    images: LabelledFeatures,
    vectors: Tensor,
    training: ProjectionTraining,
    rng: torch.Generator,
    device: torch.device,
) -> Tensor:
    """Return a map float32 [E, D] of features to the space of the classes' vectors [K, E].

    `rng` draws the first weights, as PyTorch initialises a linear layer, and the order of each
    epoch.
    """
    width, n_classes = images.features.shape[1], len(vectors)
    bound = 1 / math.sqrt(width)
    weight = torch.empty(vectors.shape[1], width).uniform_(-bound, bound, generator=rng)
    weight = weight.to(device).requires_grad_()
    adam = torch.optim.Adam([weight], lr=training.learning_rate, weight_decay=training.weight_decay)
    schedule = StepLR(adam, 10, 0.5)
    targets = vectors.to(device)
    for _ in range(training.epochs):
        order = torch.randperm(len(images.label), generator=rng)
        for rows in torch.split(order, training.batch_size):
            adam.zero_grad()
            logits = images.features[rows].to(device) @ weight.T @ targets.T
            # PyTorch divides by K instead of K - 1.
            loss = multi_margin_loss(logits.softmax(1), images.label[rows].to(device))
            torch.autograd.backward(loss * n_classes / (n_classes - 1))
            adam.step()
        schedule.step()
    return weight.detach().cpu()
