"""Networks for CIFAR-10 whose real weights stand among the real records, as a user's adapters."""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import avg_pool2d, pad, relu

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


class Normalised(nn.Module):
    """Names what pixels in [0, 1] show; normalises them by the mean and the deviation it has."""

    def load(self, file):
        state = torch.load(file, weights_only=True, map_location="cpu")["state_dict"]
        self.load_state_dict({key.removeprefix("module."): v for key, v in state.items()})
        self.eval().requires_grad_(requires_grad=False)

    def preprocess(self, image):
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255

    def class_names(self):
        return NAMES

    def normalised(self, pixels):
        mean, deviation = (torch.tensor(v).view(3, 1, 1) for v in (self.mean, self.deviation))
        return (pixels - mean) / deviation


class Block(nn.Module):
    """A residual block of a ResNet for CIFAR; He et al. 2016, section 4.2, shortcut A."""

    def __init__(self, width, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.stride, self.more = stride, (out - width) // 2

    def forward(self, x):
        inner = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        same = x[:, :, :: self.stride, :: self.stride]
        return (inner + pad(same, (0, 0, 0, 0, self.more, self.more))).relu()


class ResNet20(Normalised):
    """The network for CIFAR-10 with 20 layers, trained with ImageNet's mean and deviation."""

    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def __init__(self, file):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[Block(16, 16, 1) for _ in range(3)])
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32, 1), Block(32, 32, 1))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64, 1), Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)
        self.load(file)

    def encode_images(self, pixels):
        x = self.bn1(self.conv1(self.normalised(pixels))).relu()
        x = self.layer3(self.layer2(self.layer1(x)))
        return avg_pool2d(x, x.shape[-1]).flatten(1)

    def logits(self, pixels):
        return self.linear(self.encode_images(pixels))


class PlainBlock(nn.Module):
    """A residual block without batch normalisation; a shortcut of 1 x 1 where the width changes."""

    def __init__(self, width, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1)
        wider = nn.Sequential(nn.Conv2d(width, out, 1, stride))
        self.shortcut = nn.Identity() if width == out else wider

    def forward(self, x):
        return relu(self.conv2(relu(self.conv1(x))) + self.shortcut(x))


class ResNet2B(Normalised):
    """ResNet-2B of VNN-COMP 2021, trained against Linf attacks of 2/255.

    Read from the shapes of its weights and, for strides, from what reaches its accuracy; the mean
    and the deviation are those of CIFAR-10's train images, as its README asks.
    """

    mean, deviation = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)

    def __init__(self, file):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1)
        self.layer1 = nn.Sequential(PlainBlock(8, 16, 2), PlainBlock(16, 16, 1))
        self.linear1, self.linear2 = nn.Linear(1024, 100), nn.Linear(100, 10)
        self.load(file)

    def logits(self, pixels):
        x = self.layer1(relu(self.conv1(self.normalised(pixels))))
        return self.linear2(relu(self.linear1(x.flatten(1))))
