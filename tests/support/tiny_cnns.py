"""Weights of classifiers of torchvision and timm that all matter, and their adapters."""

import timm
import torch
import torchvision
from tiny_joint import CPU, adapter
from torch import nn
from torchvision.transforms import Normalize

TorchvisionCnn = adapter("torchvision_cnn:TorchvisionCnn")
TimmCnn = adapter("timm_cnn:TimmCnn")
SMALL = {"device": CPU, "resize": 64}
LITTLE = {**SMALL, "architecture": "resnet18"}
IMAGENET = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def draw_torchvision(name, seed=0):
    """Return weights in which every BatchNorm matters."""
    torch.manual_seed(seed)
    model = torchvision.models.get_model(name)
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.0)
            nn.init.uniform_(layer.bias, -0.1, 0.1)
            nn.init.uniform_(layer.running_mean, -0.1, 0.1)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
    return model.state_dict()


def draw_timm(name, **options):
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


def headless(state):
    return {key: value for key, value in state.items() if not key.startswith("fc.")}
