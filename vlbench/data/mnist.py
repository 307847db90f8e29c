"""MNIST and Fashion-MNIST, idx files, plain or .gz. LeCun et al. 1998; arXiv:1708.07747."""

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vlbench.data import hub_sets
from vlbench.data.images import DIGITS, Pixels, array_images, labelled
from vlbench.data.records import Data, Split
from vlbench.errors import DataAbsent, DataError

GARMENTS = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
PREFIXES = {"train": "train", "test": "t10k"}
EXPECTED = {"train": 60_000, "test": 10_000}


class _Source(NamedTuple):
    """One of the two data sets: its name, home page, classes and copy on the hub."""

    what: str
    home: str
    classes: Sequence[str]
    hub: hub_sets.HubSet


MNIST = _Source("MNIST", "yann.lecun.com/exdb/mnist", DIGITS, hub_sets.MNIST)
FASHION_MNIST = _Source(
    "Fashion-MNIST",
    "github.com/zalandoresearch/fashion-mnist",
    GARMENTS,
    hub_sets.FASHION_MNIST,
)


def mnist(*, root: Path, download: bool = False) -> Data:
    """Return MNIST, 28x28 grey: the splits for which `root` has both images and labels.

    Where it has none, `download` fetches both splits from the hub.
    """
    return _load(root, MNIST, download)


def fashion_mnist(*, root: Path, download: bool = False) -> Data:
    """Return Fashion-MNIST, 28x28 grey: the splits for which `root` has both images and labels.

    Where it has none, `download` fetches both splits from the hub.
    """
    return _load(root, FASHION_MNIST, download)


def _load(root: Path, source: _Source, download: bool) -> Data:
    pairs = {
        split: (_find(root, f"{prefix}-images-idx3"), _find(root, f"{prefix}-labels-idx1"))
        for split, prefix in PREFIXES.items()
    }
    splits = {
        split: _split(images, labels, len(source.classes))
        for split, (images, labels) in pairs.items()
        if images and labels
    }
    if not splits:
        files = "{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz"
        absent = DataAbsent(
            source.what, f"the hub (--download) or {source.home}", f"{root}/{files}"
        )
        if not download:
            raise absent
        return hub_sets.from_hub(source.hub, absent, expected=EXPECTED, classes=source.classes)
    expected = {split: EXPECTED[split] for split in splits}
    return Data(splits=splits, classes=source.classes, expected=expected)


def _find(root: Path, stem: str) -> Path | None:
    """Return the plain or the compressed file; None where both are missing."""
    paths = [root / f"{stem}-ubyte{suffix}" for suffix in ("", ".gz")]
    return next((path for path in paths if path.is_file()), None)


def _split(images: Path, labels: Path, classes: int) -> Split:
    pixels = read_idx(images, dimensions=3)
    if pixels.shape[1:] != (28, 28):
        raise DataError(f"{images.name}: images of {pixels.shape[1:]} pixels, not 28x28")
    values = read_idx(labels, dimensions=1).tolist()
    where = f"{images.name} + {labels.name}"
    return labelled(array_images(pixels), values, classes=classes, where=where)


def read_idx(path: Path, *, dimensions: int) -> Pixels:
    """Return the array of an idx file of bytes. Raises DataError for another type or length."""
    content = _unpacked(path)
    magic = bytes([0, 0, 8, dimensions])
    if content[:4] != magic:
        raise DataError(f"{path.name} begins with {content[:4].hex()}, not {magic.hex()}")
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise DataError(f"{path.name} is cut off in its header; fetch it again")
    shape = tuple(np.frombuffer(content, ">u4", dimensions, 4).tolist())
    size = math.prod(shape)
    if len(content) - header != size:
        message = f"{path.name} holds {len(content) - header} bytes, not the {size} of {shape}"
        raise DataError(f"{message}; fetch it again")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _unpacked(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    try:
        with gzip.open(path) as file:
            return file.read()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path.name} cannot be unpacked ({error}); fetch it again") from error
