"""Weights of classifiers of timm, and the adapter on small images."""

import timm
import torch
from tiny_joint import CPU, adapter

TimmCnn = adapter("timm_cnn:TimmCnn")
SMALL = {"device": CPU, "resize": 64}


def draw_state(name, **options):
    """Return weights none of which is zero or one, and which keep the scale of activations."""
    rng = torch.Generator().manual_seed(0)
    state = timm.create_model(name, **options).state_dict()
    flat = {k: 0.5 + torch.rand(v.shape, generator=rng) for k, v in state.items() if v.ndim == 1}
    deep = {
        k: torch.randn(v.shape, generator=rng) * v[0].numel() ** -0.5
        for k, v in state.items()
        if v.ndim > 1
    }
    return {**state, **flat, **deep}
