"""Street View House Numbers: cropped digits (format 2) and full numbers (format 1).

Netzer et al. 2011, Reading Digits in Natural Images with Unsupervised Feature Learning.
"""

import math
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vlbench.data import hub_sets
from vlbench.data.archives import CHUNK, DAMAGED
from vlbench.data.images import DIGITS, array_images, file_images, labelled
from vlbench.data.mat_files import read_mat
from vlbench.data.records import Data, Split, value_column
from vlbench.errors import DataAbsent, DataError

HOME = "ufldl.stanford.edu/housenumbers"
CROPS = {"train": 73_257, "test": 26_032}
NUMBERS = {"train": 33_402, "test": 13_068}

# The most digits of a number and letters of a file's name; the files have 6 and 9.
MOST_DIGITS, MOST_LETTERS = 100, 255


class _Number(NamedTuple):
    """A picture of a house number: its file, and a box and a label per digit."""

    name: str
    boxes: list[list[float]]
    labels: list[int]


def svhn(*, root: Path, download: bool = False) -> Data:
    """Return the cropped digits, 32x32, of `train_32x32.mat` and `test_32x32.mat`.

    Where `root` has neither, `download` fetches both from the hub.
    """
    paths = {split: root / f"{split}_32x32.mat" for split in CROPS}
    paths = {split: path for split, path in paths.items() if path.is_file()}
    if not paths:
        where = f"{root}/{{train,test}}_32x32.mat"
        absent = DataAbsent("SVHN (cropped digits)", f"the hub (--download) or {HOME}", where)
        if not download:
            raise absent
        return hub_sets.from_hub(hub_sets.SVHN, absent, expected=CROPS, classes=DIGITS)
    splits = {split: _crops(path) for split, path in paths.items()}
    expected = {split: CROPS[split] for split in splits}
    return Data(splits=splits, classes=DIGITS, expected=expected)


def svhn_numbers(*, root: Path) -> Data:
    """Return whole pictures of house numbers: columns image, boxes and labels.

    `boxes` has one [left, top, right, bottom] per digit, in pixels as annotated; some reach beyond
    the picture. `labels` has the digits, 0..9, in the same order. Needs h5py.
    """
    folders = {split: root / split for split in NUMBERS}
    folders = {s: folder for s, folder in folders.items() if (folder / "digitStruct.mat").is_file()}
    if not folders:
        where = f"{root}/{{train,test}}/digitStruct.mat and the PNG files beside it"
        raise DataAbsent("SVHN (full numbers)", HOME, where)
    splits = {split: _numbers(folder) for split, folder in folders.items()}
    expected = {split: NUMBERS[split] for split in splits}
    return Data(splits=splits, classes=DIGITS, expected=expected)


def _crops(path: Path) -> Split:
    """Return a split of X, uint8 [32, 32, 3, N], and y, [N, 1], in which 10 means the digit 0."""
    most = CROPS["train"]
    try:
        content = read_mat(path, ("X", "y"), most=most * 32 * 32 * 3 + CHUNK)
        pixels, labels = content["X"], content["y"].ravel().tolist()
    except DAMAGED as error:
        raise _unreadable(path.name, error) from error
    if pixels.dtype != np.uint8 or pixels.shape[:-1] != (32, 32, 3):
        message = f"X is {pixels.dtype} {pixels.shape}, not uint8 [32, 32, 3, N]"
        raise DataError(f"{path.name}: {message}")
    if pixels.shape[-1] > most:
        raise DataError(f"{path.name} holds {pixels.shape[-1]} digits, the set at most {most}")
    # One image's pixels side by side: reading them across the array misses the cache each time.
    images = array_images(np.ascontiguousarray(pixels.transpose(3, 0, 1, 2)))
    return labelled(images, _digits(path.name, labels), classes=10, where=path.name)


def _numbers(folder: Path) -> Split:
    numbers = _digit_struct(folder / "digitStruct.mat")
    return Split(
        {
            "image": file_images(
                folder, [number.name for number in numbers], listed="digitStruct.mat"
            ),
            "boxes": value_column([number.boxes for number in numbers]),
            "labels": value_column([number.labels for number in numbers]),
        }
    )


def _digit_struct(path: Path) -> list[_Number]:
    """Return the records of a MATLAB 7.3 (HDF5) file, in its order."""
    where = f"{path.parent.name}/{path.name}"
    try:
        import h5py  # type: ignore[import-untyped]  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise DataError(f"{where} needs h5py to be read; pip install 'vlbench[hdf5]'") from error
    try:
        with h5py.File(path) as file:
            table = file["digitStruct"]
            if max(table["name"].size, table["bbox"].size) > max(NUMBERS.values()):
                raise ValueError("more pictures than the set has")
            names, boxes = table["name"][:, 0], table["bbox"][:, 0]
            return [_number(file, *both, where) for both in zip(names, boxes, strict=True)]
    except DAMAGED as error:
        raise _unreadable(where, error) from error


def _number(file: Any, name: Any, bbox: Any, where: str) -> _Number:
    fields = {key: _values(file, file[bbox][key]) for key in ("left", "top", "width", "height")}
    boxes = [[x, y, x + w, y + h] for x, y, w, h in zip(*fields.values(), strict=True)]
    labels = _digits(where, _values(file, file[bbox]["label"]))
    if not all(map(math.isfinite, chain(*boxes))):
        raise ValueError("a box that is not finite")
    return _Number("".join(map(chr, _read(file[name], MOST_LETTERS))), boxes, labels)


def _values(file: Any, field: Any) -> list[float]:
    """Return a field's numbers: MATLAB stores a single one as it is and several as references."""
    stored = _read(field, MOST_DIGITS)
    return [float(v if len(stored) == 1 else _read(file[v], 1)[0]) for v in stored]


def _read(dataset: Any, most: int) -> Any:
    """Return the values of a dataset, flat. Raises ValueError where it announces more."""
    if dataset.size > most:
        raise ValueError(f"{dataset.size} values where {most} are expected at most")
    return dataset[:].ravel()


def _digits(where: str, labels: list[float]) -> list[int]:
    wrong = [label for label in labels if label not in range(1, 11)]
    if wrong:
        raise DataError(f"{where}: label {wrong[0]} is not in 1..10")
    return [int(label) % 10 for label in labels]


def _unreadable(where: str, error: Exception) -> DataError:
    message = f"{where} is not a file of SVHN ({type(error).__name__}); fetch it again"
    return DataError(message)
