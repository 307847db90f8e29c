"""Region features by image, read from their file on each access.

Bottom-up attention (Anderson et al. 2018, arXiv:1707.07998) in its own TSV format, in LXMERT's
(with confidences), as npz (one file per image) and in BAN's HDF5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from vlbench.capabilities import Regions
from vlbench.data.coco_files import read_text
from vlbench.data.presence import begin_reading
from vlbench.data.regions import hdf5, npz, tsv
from vlbench.data.regions.records import Reader, StoredRegions
from vlbench.digests import digest, file_digests
from vlbench.errors import DataAbsent, DataError

# The function that indexes each kind of file: a reader per image, by the image's name.
KINDS: Mapping[str, Callable[[Path], dict[str, Reader]]] = {
    ".tsv": tsv.index,
    ".npz": npz.index,
    ".hdf5": hdf5.index,
    ".h5": hdf5.index,
}
VOCABULARY = "objects_vocab.txt"

Size = tuple[int, int]


class RegionFeatures(Mapping[str, Regions]):
    """Regions by the number of their image (see `image_id`), read from files on each access."""

    def __init__(
        self, name: str, key: str, readers: Mapping[str, Reader], sizes: Mapping[str, Size]
    ) -> None:
        self.name = name
        self.key = key
        self._readers = readers
        self._sizes = sizes

    def __getitem__(self, image: str) -> Regions:
        """Return the regions of an image; KeyError if it has none, DataError if unreadable."""
        stored = self._readers[image]()
        return _check(stored, stored.size or self._sizes.get(image), self._sizes.get(image))

    def __contains__(self, image: object) -> bool:
        """Return whether an image has regions, without reading them."""
        return image in self._readers

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._readers)

    def __iter__(self) -> Iterator[str]:
        """Yield the images' numbers."""
        return iter(self._readers)


def region_features(path: Path, sizes: Mapping[str, Size] | None = None) -> RegionFeatures:
    """Return the features in a file, or in all files of a folder; none are kept in memory.

    `sizes` are (W, H) by image, for files without sizes; files with sizes must agree. Where the
    file has class numbers and objects_vocab.txt lies beside it, labels are its words. Raises
    DataAbsent or DataError.
    """
    files = sorted(p for p in path.iterdir() if p.suffix in KINDS) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise DataAbsent("region features", "whoever made them", f"{path} ({', '.join(KINDS)})")
    begin_reading()
    if files[0].suffix not in KINDS:
        raise DataError(
            f"{path.name} has another format; region features are read from {', '.join(KINDS)}"
        )
    vocabulary = files[0].parent / VOCABULARY
    words = read_text(vocabulary).splitlines() if vocabulary.is_file() else []
    readers: dict[str, Reader] = {}
    for file in files:
        for name, reader in KINDS[file.suffix](file).items():
            number = image_id(name)
            if number in readers:
                raise DataError(f"{file.name} repeats the regions of image {name}")
            readers[number] = partial(_with_labels, reader, words) if words else reader
    used = [vocabulary] if words else []
    parts = [part for file in files for part in (file, *_partner(file))]
    contents = file_digests([*parts, *used], "bytes")
    known = {image_id(name): size for name, size in (sizes or {}).items()}
    return RegionFeatures(path.name, digest([*contents, sorted(readers)]), readers, known)


def image_id(name: str) -> str:
    """Return the number at the end of an image's name without leading zeros; else its stem.

    `COCO_val2014_000000058350.jpg` is 58350: data sets and region features name images differently.
    """
    stem = re.sub(r"(\.(jpe?g|png|npz))+$", "", name.rsplit("/", 1)[-1])
    number = re.search(r"\d+$", stem)
    return number[0].lstrip("0") or "0" if number else stem


def _partner(file: Path) -> list[Path]:
    return [hdf5.index_file(file)] if KINDS[file.suffix] is hdf5.index else []


def _with_labels(reader: Reader, words: list[str]) -> StoredRegions:
    stored = reader()
    if stored.objects is None:
        return stored
    if len(stored.objects) and not 0 <= min(stored.objects) <= max(stored.objects) < len(words):
        raise DataError(f"{stored.where}: an object that {VOCABULARY} lacks")
    return stored._replace(labels=[words[number] for number in stored.objects])


def _check(stored: StoredRegions, size: Size | None, known: Size | None) -> Regions:
    """Return regions with boxes in pixels of an image of `size`, which must equal a `known` one."""
    if size is None:
        raise DataError(f"{stored.where} has no image size, nor has the data set")
    if known not in {None, size}:
        raise DataError(f"{stored.where} is of an image of {size}, the data set's is {known}")
    _require_shapes(stored)
    boxes = stored.boxes
    ordered = (boxes[:, :2] <= boxes[:, 2:]).all(1)
    sound = ordered & boxes.isfinite().all(1) & stored.vectors.isfinite().all(1)
    if not sound.all():
        region = int((~sound).nonzero()[0])
        raise DataError(
            f"{stored.where}: region {region}, box {boxes[region].tolist()}: wanted x1 <= x2, "
            "y1 <= y2 and finite numbers"
        )
    if stored.is_relative:
        boxes = boxes * boxes.new_tensor([*size, *size])
    return Regions(boxes, stored.vectors, stored.scores, stored.labels, size)


def _require_shapes(stored: StoredRegions) -> None:
    boxes, scores = stored.boxes, stored.scores
    if len(boxes) == 0:
        raise DataError(f"{stored.where} has no regions")
    if len(boxes) != len(stored.vectors):
        raise DataError(f"{stored.where}: {len(boxes)} boxes, but {len(stored.vectors)} vectors")
    if boxes.shape[1:] != (4,):
        raise DataError(f"{stored.where}: boxes of {list(boxes.shape)}, not [N, 4]")
    if scores is not None and not (len(scores) == len(boxes) and scores.isfinite().all()):
        raise DataError(f"{stored.where}: not one finite score per region")
