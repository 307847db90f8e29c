"""A ResNet-18 of torchvision whose weights all matter, and what tests do with it."""

import torch
import torchvision
from tiny_joint import CPU, adapter
from torch import nn
from torchvision.transforms import Normalize

TorchvisionCnn = adapter("torchvision_cnn:TorchvisionCnn")
SMALL = {"device": CPU, "resize": 64}
LITTLE = {**SMALL, "architecture": "resnet18"}
IMAGENET = Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def draw_state(name, seed=0):
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


def headless(state):
    return {key: value for key, value in state.items() if not key.startswith("fc.")}
