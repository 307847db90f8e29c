"""MNIST and Fashion-MNIST, idx files, plain or .gz. LeCun et al. 1998; arXiv:1708.07747."""

import gzip
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from vlbench.data import hub_sets
from vlbench.data.images import DIGITS, Pixels, array_images, labelled
from vlbench.data.presence import begin_reading
from vlbench.data.records import LISTED, Data, Split
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
MOST = max(EXPECTED.values())


class _Source(NamedTuple):
    """The name, home page, classes and hub copy of a data set."""

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

    If there is no such split, `download` fetches both splits from the hub.

    Args:
        root: folder of the files.
    """
    return _load(root, MNIST, download)


def fashion_mnist(*, root: Path, train: int | None = None, download: bool = False) -> Data:
    """Return Fashion-MNIST, 28x28 grey: the splits for which `root` has both images and labels.

    If there is no such split, `download` fetches both splits from the hub.

    Args:
        root: folder of the files.
        train: number of train images, from the first on; None takes all 60,000.
    """
    return _load(root, FASHION_MNIST, download).first("train", train)


def _load(root: Path, source: _Source, download: bool) -> Data:
    pairs = {
        split: (_find(root, f"{prefix}-images-idx3"), _find(root, f"{prefix}-labels-idx1"))
        for split, prefix in PREFIXES.items()
    }
    pairs = {split: pair for split, pair in pairs.items() if all(pair)}
    if not pairs:
        files = "{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz"
        absent = DataAbsent(
            source.what, f"the hub (--download) or {source.home}", f"{root}/{files}"
        )
        return hub_sets.from_hub(
            source.hub, absent, download, expected=EXPECTED, classes=source.classes
        )
    begin_reading()
    splits = {
        split: _split(images, labels, len(source.classes))
        for split, (images, labels) in pairs.items()
        if images and labels
    }
    expected = {split: EXPECTED[split] for split in splits}
    return Data(splits=splits, classes=source.classes, expected=expected, class_order=LISTED)


def _find(root: Path, stem: str) -> Path | None:
    """Return the plain or the compressed file; None if both are missing."""
    paths = [root / f"{stem}-ubyte{suffix}" for suffix in ("", ".gz")]
    return next((path for path in paths if path.is_file()), None)


def _split(images: Path, labels: Path, classes: int) -> Split:
    pixels, values = read_idx(images, (28, 28)), read_idx(labels).tolist()
    where = f"{images.name} + {labels.name}"
    return labelled(array_images(pixels), values, classes=classes, where=where)


def read_idx(path: Path, item: tuple[int, ...] = ()) -> Pixels:
    """Return the array of an idx file of bytes, up to 60,000 items of this shape.

    Raises DataError for another type, shape or length. At most the header's size is unpacked.
    """
    try:
        opener: Any = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as file:
            shape = _shape(file, path.name, item)
            size = math.prod(shape)
            content = file.read(size + 1)
    except (EOFError, zlib.error, OSError) as error:
        message = f"{path.name} cannot be unpacked ({type(error).__name__}: {error})"
        raise DataError(f"{message}; fetch it again") from error
    if len(content) != size:
        held = f"more than {size}" if len(content) > size else len(content)
        message = f"{path.name} contains {held} bytes, not the {size} of {shape}"
        raise DataError(f"{message}; fetch it again")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _shape(file: IO[Any], name: str, item: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in the header of an idx file."""
    dimensions = 1 + len(item)
    magic, start = bytes([0, 0, 8, dimensions]), file.read(4)
    if start != magic:
        raise DataError(f"{name} begins with {start.hex()}, not {magic.hex()}")
    header = file.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise DataError(f"{name} is cut off in its header; fetch it again")
    shape = tuple(np.frombuffer(header, ">u4").tolist())
    if shape[1:] != item:
        size = "x".join(map(str, item))
        raise DataError(f"{name}: images of {shape[1:]} pixels, not {size}")
    if shape[0] > MOST:
        raise DataError(f"{name} declares {shape[0]} items, but the set has at most {MOST}")
    return shape
