"""Street View House Numbers, the cropped digits (format 2).

Netzer et al. 2011, Reading Digits in Natural Images with Unsupervised Feature Learning.
"""

from __future__ import annotations

import struct
import warnings
import zlib
from pathlib import Path

import numpy as np

from vlbench.data import hub_sets
from vlbench.data.formats.archives import DAMAGED
from vlbench.data.images import DIGITS, array_images, labelled
from vlbench.data.presence import begin_reading
from vlbench.data.records import LISTED, Data, Split
from vlbench.errors import DataAbsent, DataError

HOME = "ufldl.stanford.edu/housenumbers"
CROPS = {"train": 73_257, "test": 26_032}

# The boxes in whole photos (format 1); this format would need crops of the digits.
PHOTOS = "digitStruct.mat"

# The end of the header of a MATLAB 5 file, and the order of its bytes.
BYTE_ORDERS = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}

# MATLAB's codes of a compressed part, of matrices of numbers, and of types of numbers.
COMPRESSED, NUMERIC, TYPES = 15, range(6, 16), {1, 2, 3, 4, 5, 6, 7, 9, 12, 13}
IS_COMPLEX = 0x800

# An upper limit of the bytes before a matrix's numbers.
HEAD = 512

# The most bytes of a matrix.
MOST = CROPS["train"] * 32 * 32 * 3 + HEAD


def svhn(*, root: Path, download: bool = False) -> Data:
    """Return the cropped digits, 32x32, of `train_32x32.mat` and `test_32x32.mat`.

    If `root` has neither file, `download` fetches both from the hub.

    Args:
        root: folder of the files.
    """
    paths = {split: root / f"{split}_32x32.mat" for split in CROPS}
    paths = {split: path for split, path in paths.items() if path.is_file()}
    if not paths:
        where = f"{root}/{{train,test}}_32x32.mat"
        what = f"SVHN (cropped digits{_instead(root)})"
        absent = DataAbsent(what, f"the hub (--download) or {HOME}", where)
        return hub_sets.from_hub(hub_sets.SVHN, absent, download, expected=CROPS, classes=DIGITS)
    begin_reading()
    splits = {split: _crops(path) for split, path in paths.items()}
    expected = {split: CROPS[split] for split in splits}
    return Data(splits=splits, classes=DIGITS, expected=expected, class_order=LISTED)


def _instead(root: Path) -> str:
    """Return a hint if the folder contains whole photos; else an empty text."""
    photos = [part for part in (root, *(root / s for s in CROPS)) if (part / PHOTOS).is_file()]
    return f", not the whole photos of {PHOTOS}" if photos else ""


def _require_sound(path: Path) -> None:
    """Raise ValueError for a matrix on which SciPy ends the process, or takes gigabytes.

    SciPy looks up the type of the numbers by an unchecked code (scipy/scipy#25829).
    """
    with path.open("rb") as file:
        order = BYTE_ORDERS.get(file.read(128)[124:])
        while order and (tag := file.read(8)):
            kind, size = struct.unpack(f"{order}II", tag)
            end = file.tell() + size
            head = file.read(min(size, HEAD))
            if kind == COMPRESSED:
                head = zlib.decompressobj().decompress(head, HEAD)
                _, size = struct.unpack(f"{order}II", head[:8])
                head = head[8:]
            (flags,) = struct.unpack(f"{order}8xI", head[:12])
            place = 16
            for _ in range(3):  # the dimensions, the name and the numbers
                code, count = struct.unpack(f"{order}II", head[place : place + 8])
                # A part of at most four bytes is inside its tag.
                place += 8 if code >> 16 else 8 + count + -count % 8
            is_real = flags & 0xFF in NUMERIC and not flags & IS_COMPLEX
            if not is_real or code & 0xFFFF not in TYPES or place > size + 8 or size > MOST:
                raise ValueError(f"a matrix of {size} bytes has the type {code}")
            file.seek(end)


def _crops(path: Path) -> Split:
    """Return a split of X, uint8 [32, 32, 3, N], and y, [N, 1], in which 10 means the digit 0."""
    from scipy.io import loadmat  # noqa: PLC0415 - listings must not wait for it
    from scipy.io.matlab import MatReadError  # noqa: PLC0415 - as above

    try:
        _require_sound(path)
        with warnings.catch_warnings(action="ignore"):  # for content that is not an array
            content = loadmat(path, variable_names=["X", "y"])
        pixels, labels = content["X"], content["y"].astype(float, casting="safe").ravel().tolist()
        is_right = pixels.dtype == np.uint8 and pixels.shape[:-1] == (32, 32, 3)
    except NotImplementedError as error:
        way_out = f"save it with -v7, or fetch the original from {HOME}"
        message = f"{path.name} is a file of MATLAB 7.3 (HDF5); {way_out}"
        raise DataError(message) from error
    except (*DAMAGED, MatReadError) as error:
        message = f"{path.name} is not a file of SVHN ({type(error).__name__}); fetch it again"
        raise DataError(message) from error
    if not is_right:
        message = f"X is {pixels.dtype} {pixels.shape}, not uint8 [32, 32, 3, N]"
        raise DataError(f"{path.name}: {message}")
    if wrong := [label for label in labels if label not in range(1, 11)]:
        raise DataError(f"{path.name}: label {wrong[0]:g} is not in 1..10")
    # Make each image contiguous: strided reads would miss the cache each time.
    images = array_images(np.ascontiguousarray(pixels.transpose(3, 0, 1, 2)))
    digits = [int(label) % 10 for label in labels]
    return labelled(images, digits, classes=10, where=path.name)
