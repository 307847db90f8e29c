"""Models with planted answers, and images that carry them: their label and number are pixels."""

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import one_hot

from vlbench.data.records import Column, Data, Split, value_column
from vlbench.system.digests import digest

SIZE = 4


def labelled_images(*per_class: int, test: Sequence[int] = (), classes: Sequence[str] = ()) -> Data:
    """Return a train and a test split with so many images of class 0, 1, ..., sorted by class.

    `test` counts default to those of train. Images are numbered through train, then test.
    """
    test = test or per_class
    train_labels = np.repeat(range(len(per_class)), per_class).tolist()
    test_labels = np.repeat(range(len(test)), test).tolist()
    splits = {
        "train": _split(train_labels, first=0),
        "test": _split(test_labels, first=len(train_labels)),
    }
    return Data(
        splits=splits, classes=list(classes) or [f"class {i}" for i in range(len(per_class))]
    )


def planted_image(label: int, number: int) -> Image.Image:
    """Return an RGB image whose red is the label, and whose green and blue are the number."""
    return Image.new("RGB", (SIZE, SIZE), (label, number % 256, number // 256))


class Reader:
    """Sees the pixels as they are; what the other fakes share."""

    def preprocess(self, image: Image.Image) -> Tensor:
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


class ConstantModel(Reader):
    """Gives every image the same vector."""

    def __init__(self, vector: Sequence[float] = (0.3, -0.7, 0.1)) -> None:
        self.vector = torch.tensor(vector)

    def encode_images(self, pixels: Tensor) -> Tensor:
        return self.vector.expand(len(pixels), -1)


class ReadsTheLabel(Reader):
    """Gives an image of class i the i-th unit vector."""

    def __init__(self, width: int = 16) -> None:
        self.width = width

    def encode_images(self, pixels: Tensor) -> Tensor:
        return one_hot(labels_in(pixels), self.width).float()


class PlantedFeatures(Reader):
    """Gives image number i row i of [N, D] features: the rows of train, then those of test."""

    def __init__(self, *features: Tensor) -> None:
        self.features = torch.cat(features)

    def encode_images(self, pixels: Tensor) -> Tensor:
        return self.features[numbers_in(pixels)]


def labels_in(pixels: Tensor) -> Tensor:
    """Return the planted labels of [N, 3, H, W], int64 [N]."""
    return (pixels[:, 0, 0, 0] * 255).round().long()


def numbers_in(pixels: Tensor) -> Tensor:
    """Return the planted numbers of [N, 3, H, W], int64 [N]."""
    low, high = (pixels[:, channel, 0, 0].mul(255).round().long() for channel in (1, 2))
    return low + 256 * high


def _split(labels: Sequence[int], first: int) -> Split:
    stored = [planted_image(label, first + i) for i, label in enumerate(labels)]
    key = digest([list(labels), first])
    images = Column(key, "image", stored, range(len(stored)))
    return Split({"image": images, "label": value_column(labels)})


def random_features(data: Data, width: int = 8) -> Tensor:
    """Return features of all rows that are noise."""
    rows = sum(map(len, data.splits.values()))
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(1))


class Lengths:
    """Encodes a text as its length."""

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        return torch.tensor([[float(len(text))] for text in texts])
