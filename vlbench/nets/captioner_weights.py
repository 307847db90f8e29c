"""Weights of the captioner: drawn, put into a network, and fitted to features as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vlbench.nets.captioner import FcCaptioner, Sizes

# A feature that varies less than this is not scaled up.
LEAST_DEVIATION = 1e-6


def drawn_captioner(sizes: Sizes, rng: torch.Generator) -> FcCaptioner:
    """Return a network as PyTorch initialises its layers, but drawn from `rng` on the CPU."""
    network = empty_captioner(sizes)
    nn.init.normal_(network.embed.weight, generator=rng)
    for layer in network.modules():
        if isinstance(layer, nn.Linear):
            bound = 1 / math.sqrt(layer.in_features)
            nn.init.uniform_(layer.weight, -bound, bound, generator=rng)
            nn.init.uniform_(layer.bias, -bound, bound, generator=rng)
    return network


def restored(weights: Mapping[str, Tensor], sizes: Sizes) -> FcCaptioner:
    """Return the network of these weights, on the CPU."""
    network = empty_captioner(sizes)
    network.load_state_dict(weights)
    return network


def spread(features: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation [D] of features [N, D]; 1 for what does not vary."""
    deviation, mean = torch.std_mean(features, 0, correction=0)
    return mean, deviation.masked_fill(deviation < LEAST_DEVIATION, 1.0)


def unscaled(
    weights: Mapping[str, Tensor], mean: Tensor | float, deviation: Tensor | float
) -> dict[str, Tensor]:
    """Return weights that do with features as they are what these do with standardised ones."""
    first = weights["fc_embed.weight"] / deviation
    bias = weights["fc_embed.bias"] - (first * mean).sum(1)
    return {**weights, "fc_embed.weight": first, "fc_embed.bias": bias}


def empty_captioner(sizes: Sizes) -> FcCaptioner:
    """Return a network without values, so that torch's global generator is left as it was."""
    with torch.device("meta"):
        network = FcCaptioner(sizes)
    return network.to_empty(device="cpu")
