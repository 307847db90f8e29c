"""Region features by image, read from their file on each access.

Bottom-up attention (Anderson et al. 2018, arXiv:1707.07998) in its original TSV format, in LXMERT's
(with confidences), as npz (one file per image) and in BAN's HDF5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from vlbench.capabilities import Regions
from vlbench.data.coco_files import lines_of, read_text
from vlbench.data.folders import is_visible
from vlbench.data.presence import begin_reading
from vlbench.data.regions import hdf5, npz, tsv
from vlbench.data.regions.names import image_name, image_number
from vlbench.data.regions.records import Reader, StoredRegions
from vlbench.errors import DataAbsent, DataError
from vlbench.system.digests import digest, file_digests

# The function that indexes each kind of file: it returns a reader per image name.
KINDS: Mapping[str, Callable[[Path], dict[str, Reader]]] = {
    ".tsv": tsv.index,
    ".npz": npz.index,
    ".hdf5": hdf5.index,
    ".h5": hdf5.index,
}
VOCABULARY = "objects_vocab.txt"

# The version of reading labels; change the number if `_read_words` changes.
LABELS = "the first of several names, 1"

# The fraction that equals a whole side, with its rounding in float32.
WHOLE = 1.0001

# Pixels by which a box may exceed its image: files round boxes, fractions and sizes.
ROUNDING = 1

Size = tuple[int, int]


class RegionFeatures(Mapping[str, Regions]):
    """Regions by the name of their image, read from files on each access.

    The names are results of `image_name`, or of `image_number` if images are numbered.
    """

    def __init__(
        self, name: str, key: str, readers: Mapping[str, Reader], sizes: Mapping[str, Size]
    ) -> None:
        self.name = name
        self.key = key
        self._readers = readers
        self._sizes = sizes

    def __getitem__(self, image: str) -> Regions:
        """Return the regions of an image; KeyError if it has none, DataError if unreadable."""
        return self.of(image)

    def of(self, image: str, size: Size | None = None) -> Regions:
        """Return the regions of an image; `size` is its (W, H) if that is known.

        Raises KeyError if it has no regions, and DataError for regions of an image of another size.
        """
        return _check(self._readers[image](), size or self._sizes.get(image))

    def __contains__(self, image: object) -> bool:
        """Return whether an image has regions, without reading them."""
        return image in self._readers

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self._readers)

    def __iter__(self) -> Iterator[str]:
        """Yield the images' names."""
        return iter(self._readers)


def region_features(
    path: Path, sizes: Mapping[str, Sequence[int]] | None = None, *, numbered: bool = False
) -> RegionFeatures:
    """Return the features in a file, or in all files of a folder; none are kept in memory.

    Images are identified by their whole names (see `image_name`), or if the data set numbers them,
    as COCO does, by their numbers (`image_number`). `sizes` are (W, H) by image, for files without
    sizes; files with sizes must agree. If the file has class numbers and objects_vocab.txt is
    beside it, labels are its words. Raises DataAbsent, and DataError if an image occurs twice.
    """
    files = [path]
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in KINDS and is_visible(p.name))
    if not files or not files[0].is_file():
        raise DataAbsent(
            "region features", "the people who made them", f"{path} ({', '.join(KINDS)})"
        )
    begin_reading()
    if files[0].suffix not in KINDS:
        raise DataError(
            f"{path.name} has another format; region features are read from {', '.join(KINDS)}"
        )
    vocabulary = files[0].parent / VOCABULARY
    words = _read_words(vocabulary) if vocabulary.is_file() else []
    key_of = image_number if numbered else image_name
    readers: dict[str, Reader] = {}
    names: dict[str, str] = {}
    for file in files:
        for name, reader in KINDS[file.suffix](file).items():
            key = key_of(name)
            if key in readers:
                raise DataError(
                    f"{file.name} repeats the regions of image {key}: {names[key]} and {name}"
                )
            names[key] = name
            readers[key] = partial(_with_labels, reader, words) if words else reader
    used = [vocabulary] if words else []
    parts = [part for file in files for part in (file, *_partner(file))]
    contents = [*file_digests([*parts, *used], "bytes"), *([LABELS] if words else [])]
    measured = {key_of(name): (w, h) for name, (w, h) in (sizes or {}).items()}
    return RegionFeatures(path.name, digest([*contents, sorted(readers)]), readers, measured)


def _read_words(vocabulary: Path) -> list[str]:
    """Return the first name of each class: a line may be `stop sign,stopsign`.

    As its authors read it (lib/datasets/vg.py of bottom-up attention): in lower case.
    """
    return [line.split(",")[0].strip().lower() for line in lines_of(read_text(vocabulary))]


def _partner(file: Path) -> list[Path]:
    return [hdf5.index_file(file)] if KINDS[file.suffix] is hdf5.index else []


def _with_labels(reader: Reader, words: list[str]) -> StoredRegions:
    stored = reader()
    if stored.objects is None:
        return stored
    if len(stored.objects) and not 0 <= min(stored.objects) <= max(stored.objects) < len(words):
        raise DataError(f"{stored.where}: an object is not in {VOCABULARY}")
    return stored._replace(labels=[words[number] for number in stored.objects])


def _check(stored: StoredRegions, expected: Size | None) -> Regions:
    """Return regions with boxes in pixels of their image, whose (W, H) is `expected` or stored."""
    size = stored.size or expected
    if size is None:
        raise DataError(f"{stored.where} has no image size, and neither has the data set")
    if expected not in {None, size}:
        raise DataError(
            f"{stored.where} is for an image of {size}, but the data set's image is {expected}; "
            "compute regions on the data set's images"
        )
    _require_shapes(stored)
    boxes = stored.boxes
    ordered = (boxes[:, :2] <= boxes[:, 2:]).all(1)
    sound = ordered & boxes.isfinite().all(1) & stored.vectors.isfinite().all(1)
    if not sound.all():
        region = int((~sound).nonzero()[0])
        raise DataError(
            f"{stored.where}: region {region}, box {boxes[region].tolist()}: x1 <= x2, y1 <= y2 "
            "and finite numbers are required"
        )
    sides = boxes.new_tensor([*size, *size])
    if not stored.is_relative and 0 < boxes.max() <= WHOLE < max(size):
        raise DataError(
            f"{stored.where}: no box is larger than the first pixel of an image of {size}, so "
            "they are fractions, not pixels; multiply them by width and height, or write them as "
            "norm_bb of an npz file"
        )
    if stored.is_relative:
        boxes = boxes * sides
    outside = ((boxes < -ROUNDING) | (boxes > sides + ROUNDING)).any(1)
    if outside.any():
        region = int(outside.nonzero()[0])
        raise DataError(
            f"{stored.where}: region {region}, box {boxes[region].tolist()} is partly outside the "
            f"image of {size}; compute regions on the data set's images"
        )
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
        raise DataError(f"{stored.where}: each region needs one finite score")
