"""Region features by image: which file holds an image's, read when asked for.

Bottom-up attention (Anderson et al. 2018, arXiv:1707.07998) as its own TSV, as LXMERT's (with
confidences), as npz (one file an image) and as BAN's HDF5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from vlbench.capabilities import Regions
from vlbench.data.regions import hdf5, npz, tsv
from vlbench.data.regions.records import Found, Reader
from vlbench.digests import digest, file_digests
from vlbench.errors import DataAbsent, DataError

# How each kind of file lists what it holds: the images' names with what reads their regions.
KINDS: Mapping[str, Callable[[Path], dict[str, Reader]]] = {
    ".tsv": tsv.index,
    ".npz": npz.index,
    ".hdf5": hdf5.index,
    ".h5": hdf5.index,
}
VOCABULARY = "objects_vocab.txt"

Size = tuple[int, int]


class RegionFeatures(Mapping[str, Regions]):
    """Regions by the number of their image, read from files each time they are asked for."""

    def __init__(
        self, name: str, key: str, readers: Mapping[str, Reader], sizes: Mapping[str, Size]
    ) -> None:
        self.name = name
        self.key = key
        self._readers = readers
        self._sizes = sizes

    def __getitem__(self, image: str) -> Regions:
        """Return the regions of an image. KeyError: there are none; DataError: unreadable."""
        found = self._readers[image]()
        return _regions(found, found.size or self._sizes.get(image), self._sizes.get(image))

    def __contains__(self, image: object) -> bool:
        """Return whether an image has regions, reading none."""
        return image in self._readers

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._readers)

    def __iter__(self) -> Iterator[str]:
        """Yield the images' numbers."""
        return iter(self._readers)


def region_features(path: Path, sizes: Mapping[str, Size] | None = None) -> RegionFeatures:
    """Return the features in a file, or in all files of a folder; nothing is kept in memory.

    `sizes` are (W, H) of images, for files that do not tell them; those that do must agree. Labels
    are the words of objects_vocab.txt beside the features, where it is there and objects are
    numbered. Raises DataAbsent or DataError.
    """
    files = sorted(p for p in path.iterdir() if p.suffix in KINDS) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise DataAbsent("region features", "whoever made them", f"{path} ({', '.join(KINDS)})")
    if files[0].suffix not in KINDS:
        raise DataError(
            f"{path.name} is no {', '.join(KINDS)}: region features are read from these"
        )
    vocabulary = files[0].parent / VOCABULARY
    words = vocabulary.read_text("utf-8").splitlines() if vocabulary.is_file() else []
    readers: dict[str, Reader] = {}
    for file in files:
        for name, reader in KINDS[file.suffix](file).items():
            number = image_id(name)
            if number in readers:
                raise DataError(f"{file.name} has regions of image {name}, as one before it has")
            readers[number] = partial(_worded, reader, words) if words else reader
    beside = [vocabulary] if words else []
    parts = [part for file in files for part in (file, *_partner(file))]
    contents = file_digests([*parts, *beside], "bytes")
    known = {image_id(name): size for name, size in (sizes or {}).items()}
    return RegionFeatures(path.name, digest([*contents, sorted(readers)]), readers, known)


def image_id(name: str) -> str:
    """Return the number that ends an image's name, without suffix and zeros; else its stem.

    `COCO_val2014_000000058350.jpg` is 58350: data sets and features name one image differently.
    """
    stem = re.sub(r"(\.(jpe?g|png|npz))+$", "", name.rsplit("/", 1)[-1])
    number = re.search(r"\d+$", stem)
    return number[0].lstrip("0") or "0" if number else stem


def _partner(file: Path) -> list[Path]:
    return [hdf5.index_file(file)] if KINDS[file.suffix] is hdf5.index else []


def _worded(reader: Reader, words: list[str]) -> Found:
    found = reader()
    if found.objects is None:
        return found
    if len(found.objects) and not 0 <= min(found.objects) <= max(found.objects) < len(words):
        raise DataError(f"{found.where}: an object that {VOCABULARY} lacks")
    return found._replace(labels=[words[number] for number in found.objects])


def _regions(found: Found, size: Size | None, known: Size | None) -> Regions:
    if size is None:
        raise DataError(f"{found.where} does not tell the image's size, nor does the data set")
    if known not in {None, size}:
        raise DataError(f"{found.where} is of an image of {size}, the data set's is {known}")
    boxes = found.boxes
    if len(boxes) == 0:
        raise DataError(f"{found.where} has no regions")
    if len(boxes) != len(found.vectors):
        raise DataError(f"{found.where}: {len(boxes)} boxes, but {len(found.vectors)} vectors")
    ordered = (boxes[:, :2] <= boxes[:, 2:]).all(1)
    sound = ordered & boxes.isfinite().all(1) & found.vectors.isfinite().all(1)
    if not sound.all():
        region = int((~sound).nonzero()[0])
        raise DataError(
            f"{found.where}: region {region}, box {boxes[region].tolist()}: wanted x1 <= x2, "
            "y1 <= y2 and finite numbers"
        )
    if found.is_relative:
        boxes = boxes * boxes.new_tensor([*size, *size])
    return Regions(boxes, found.vectors, found.scores, found.labels, size)
