"""CIFAR-10 and CIFAR-100, the python version. Krizhevsky 2009.

Learning Multiple Layers of Features from Tiny Images, technical report, University of Toronto. The
batches are pickles. Only harmless substitutes are unpickled, so that a file cannot run code.
"""

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vlbench.data import hub_sets
from vlbench.data.formats.pickles import UNREADABLE, Allowed, read_pickle, unreadable
from vlbench.data.images import Pixels, array_images, labelled
from vlbench.data.presence import begin_reading
from vlbench.data.records import Data, Split
from vlbench.errors import DataAbsent, DataError

HOME = "www.cs.toronto.edu/~kriz/cifar.html"
WHAT = "a batch of CIFAR"


class _Layout(NamedTuple):
    """The files and dictionary keys of one of the two data sets."""

    what: str
    folder: str
    files: Mapping[str, Sequence[str]]
    meta: str
    names_key: str
    class_order: str
    labels_key: str
    expected: Mapping[str, int]
    hub: hub_sets.HubSet


CIFAR10 = _Layout(
    what="CIFAR-10",
    folder="cifar-10-batches-py",
    files={"train": [f"data_batch_{i}" for i in range(1, 6)], "test": ["test_batch"]},
    meta="batches.meta",
    names_key="label_names",
    class_order="cifar10",
    labels_key="labels",
    expected={"train": 50_000, "test": 10_000},
    hub=hub_sets.CIFAR10,
)
CIFAR100 = _Layout(
    what="CIFAR-100",
    folder="cifar-100-python",
    files={"train": ["train"], "test": ["test"]},
    meta="meta",
    names_key="fine_label_names",
    class_order="cifar100",
    labels_key="fine_labels",
    expected={"train": 50_000, "test": 10_000},
    hub=hub_sets.CIFAR100,
)


def cifar10(*, root: Path, test: int | None = None, download: bool = False) -> Data:
    """Return CIFAR-10; 32x32, 10 classes.

    If the files are missing, `download` fetches the data set from the hub.

    Args:
        root: folder of the batches, or the folder that contains cifar-10-batches-py.
        test: number of test images, from the first on; None takes all 10,000.
    """
    return _load(root, CIFAR10, download).first("test", test)


def cifar100(*, root: Path, download: bool = False) -> Data:
    """Return CIFAR-100; 32x32, 100 fine classes.

    If the files are missing, `download` fetches the data set from the hub.

    Args:
        root: folder of the files, or the folder that contains cifar-100-python.
    """
    return _load(root, CIFAR100, download)


def _load(root: Path, layout: _Layout, download: bool) -> Data:
    """Return the splits with at least one batch, batches in their official order."""
    folder = root / layout.folder if (root / layout.folder).is_dir() else root
    batches = {
        split: [folder / name for name in names if (folder / name).is_file()]
        for split, names in layout.files.items()
    }
    if not any(batches.values()) or not (folder / layout.meta).is_file():
        where = f"{root / layout.folder}/{layout.meta} and the batches"
        home = f"the hub (--download) or {HOME} ({layout.what.lower()}-python.tar.gz)"
        absent = DataAbsent(layout.what, home, where)
        data = hub_sets.from_hub(layout.hub, absent, download, expected=layout.expected)
        return replace(data, class_order=layout.class_order)
    begin_reading()
    classes = _class_names(folder / layout.meta, layout.names_key)
    splits = {
        split: _split(paths, layout.labels_key, len(classes))
        for split, paths in batches.items()
        if paths
    }
    expected = {split: layout.expected[split] for split in splits}
    order = layout.class_order
    return Data(splits=splits, classes=classes, expected=expected, class_order=order)


def _class_names(meta: Path, key: str) -> list[str]:
    """Return the names with blanks for underscores, because language models read them."""
    try:
        return [name.decode("ascii").replace("_", " ") for name in _unpickle(meta)[key]]
    except UNREADABLE as error:
        raise unreadable(meta.name, WHAT, error) from error


def _split(paths: Sequence[Path], labels_key: str, classes: int) -> Split:
    batches = [_batch(path, labels_key) for path in paths]
    pixels = np.concatenate([pixels for pixels, _ in batches])
    labels = [label for _, some in batches for label in some]
    names = " + ".join(path.name for path in paths)
    return labelled(array_images(pixels), labels, classes=classes, where=names)


def _batch(path: Path, labels_key: str) -> tuple[Pixels, list[int]]:
    """Return uint8 [N, 32, 32, 3] and the labels: a file has three planes of 32 rows per image."""
    try:
        batch = _unpickle(path)
        planes = batch["data"].pixels.reshape(-1, 3, 32, 32)
        labels = [label.__index__() for label in batch[labels_key]]
    except UNREADABLE as error:
        raise unreadable(path.name, WHAT, error) from error
    if len(planes) != len(labels):
        raise DataError(f"{path.name}: {len(planes)} images, but {len(labels)} labels")
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels


def _unpickle(path: Path) -> dict[str, Any]:
    """Return a file's pickled dictionary. Python 2 wrote all strings, also keys, as bytes."""
    content = read_pickle(path, ALLOWED)
    return {k.decode("ascii") if isinstance(k, bytes) else k: v for k, v in content.items()}


class _Dtype:
    """A substitute for numpy.dtype."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.is_bytes = code in ("u1", b"u1")

    def __setstate__(self, _: object) -> None:
        """Ignore byte order and alignment, which a byte does not have."""


class _Array:
    """A substitute for numpy.ndarray, because NumPy does not check the unpickled state."""

    pixels: Pixels

    def __setstate__(self, state: tuple[int, tuple[int, ...], _Dtype, bool, bytes]) -> None:
        _, shape, dtype, is_fortran, content = state
        if not dtype.is_bytes:
            raise pickle.UnpicklingError("an array of values that are not bytes")
        flat = np.frombuffer(content, np.uint8)
        self.pixels = flat.reshape(shape, order="F" if is_fortran else "C")


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _encode(text: str, _: object) -> bytes:
    """Return the bytes that Python 3 pickles as latin-1 text for Python 2."""
    return text.encode("latin-1")


ALLOWED: Allowed = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("_codecs", "encode"): _encode,
}
