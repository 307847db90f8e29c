"""Two small ResNets for CIFAR-10, with weights published by their authors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn.functional import pad

from vlbench.adapter_kit.images import resizing
from vlbench.adapter_kit.layers import LayersOfModel
from vlbench.adapter_kit.weights import seeded, weights_file
from vlbench.errors import WeightsError

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
SIDE = 32


class _CifarNet(LayersOfModel):
    """Classifies images of 32 x 32 pixels; other images are resized to this size, bilinearly.

    Args:
        weights: file with the `state_dict` of the network, or `random`.
        source: where the file can be downloaded, for the message if it is missing.
        init_seed: seed that draws random weights.
    """

    network: type[_Network]

    def __init__(
        self,
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        weights: str = "",
        source: str = "",
        init_seed: int = 0,
    ) -> None:
        with seeded(init_seed):
            network = self.network()
        if weights != "random":
            self._load(network, weights, source)
        self.model = network.eval().requires_grad_(requires_grad=False).to(device, dtype)
        self._steps = resizing(SIDE, SIDE, squash=True, interpolation="bilinear")
        self._moments = torch.tensor(network.moments, device=device).view(2, 3, 1, 1)
        self._dtype = dtype

    def _load(self, network: nn.Module, weights: str, source: str) -> None:
        file = weights_file(weights, f"download it from {source}" if source else "")
        state = torch.load(file, weights_only=True, map_location="cpu").get("state_dict", {})
        try:
            network.load_state_dict({key.removeprefix("module."): v for key, v in state.items()})
        except RuntimeError as error:
            raise WeightsError(
                f"{file} has no weights of {type(self).__name__}: {error}"
            ) from error

    @staticmethod
    def require_weights(weights: str, source: str) -> None:
        """Raise WeightsError if the file does not exist; read nothing."""
        if weights != "random":
            weights_file(weights, f"download it from {source}" if source else "")

    def preprocess(self, image: Image) -> Tensor:
        """Return float32 [3, 32, 32] in [0, 1]."""
        return self._steps(image)

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, D], the inputs of the last linear layer."""
        features: Tensor = self.model.features(self._normalised(pixels))
        return features.float()

    def logits(self, pixels: Tensor) -> Tensor:
        """Return float32 [N, 10]."""
        scores: Tensor = self.model(self._normalised(pixels))
        return scores.float()

    def class_names(self) -> Sequence[str]:
        """Return the names of the ten classes."""
        return NAMES

    def _normalised(self, pixels: Tensor) -> Tensor:
        mean, deviation = self._moments
        return ((pixels - mean) / deviation).to(self._dtype)


class _Network(nn.Module):
    """A network, and the mean and deviation of each channel that it expects."""

    moments: tuple[tuple[float, ...], tuple[float, ...]]

    def features(self, pixels: Tensor) -> Tensor:
        """Return [N, D], the inputs of the last linear layer."""
        raise NotImplementedError


class _Block(nn.Module):
    """A residual block of a ResNet for CIFAR; He et al. 2016, section 4.2, shortcut A."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.stride, self.more = stride, (out - width) // 2

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        same = x[:, :, :: self.stride, :: self.stride]
        total: Tensor = inner + pad(same, (0, 0, 0, 0, self.more, self.more))
        return total.relu()


class _ResNet20Network(_Network):
    moments = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(*[_Block(16, 16, 1) for _ in range(3)])
        self.layer2 = nn.Sequential(_Block(16, 32, 2), _Block(32, 32, 1), _Block(32, 32, 1))
        self.layer3 = nn.Sequential(_Block(32, 64, 2), _Block(64, 64, 1), _Block(64, 64, 1))
        self.linear = nn.Linear(64, 10)

    def features(self, pixels: Tensor) -> Tensor:
        x = self.bn1(self.conv1(pixels)).relu()
        return self.layer3(self.layer2(self.layer1(x))).mean((2, 3))

    def forward(self, pixels: Tensor) -> Tensor:
        scores: Tensor = self.linear(self.features(pixels))
        return scores


class ResNet20(_CifarNet):
    """ResNet with 20 layers and standard training; He et al. 2016, section 4.2. D = 64."""

    network = _ResNet20Network


class _PlainBlock(nn.Module):
    """A residual block without batch normalisation; a 1 x 1 shortcut if the width changes."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1)
        wider = nn.Sequential(nn.Conv2d(width, out, 1, stride))
        self.shortcut = nn.Identity() if width == out else wider

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.conv2(self.conv1(x).relu()) + self.shortcut(x)
        return total.relu()


class _ResNet2BNetwork(_Network):
    moments = (0.4914, 0.4822, 0.4465), (0.2471, 0.2435, 0.2616)  # of CIFAR-10's train images

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 2, 1)
        self.layer1 = nn.Sequential(_PlainBlock(8, 16, 2), _PlainBlock(16, 16, 1))
        self.linear1, self.linear2 = nn.Linear(1024, 100), nn.Linear(100, 10)

    def features(self, pixels: Tensor) -> Tensor:
        x: Tensor = self.layer1(self.conv1(pixels).relu())
        return self.linear1(x.flatten(1)).relu()

    def forward(self, pixels: Tensor) -> Tensor:
        scores: Tensor = self.linear2(self.features(pixels))
        return scores


class ResNet2B(_CifarNet):
    """ResNet-2B of VNN-COMP 2021, trained against Linf attacks of 2/255. D = 100.

    The architecture is inferred from the weights' shapes, the strides from the published accuracy;
    the mean and the deviation are given in its README.
    """

    network = _ResNet2BNetwork
