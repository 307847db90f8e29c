"""COCO's and Flickr30k's captions in Karpathy's split. Karpathy and Fei-Fei 2015, arXiv:1412.2306.

For each of the two, a file divides the images into train, val and test, and lists the words of each
caption, in lower case without punctuation. COCO's images are from 2014, and its train split
includes restval, as is usual for captioners.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from vlbench.data.coco_files import MOST_DIGITS, first_repeated, naming_file, sound_text
from vlbench.data.images import file_images
from vlbench.data.pictures import pictures
from vlbench.data.presence import begin_reading, require_files
from vlbench.data.records import Column, Data, Split
from vlbench.data.regions import RegionFeatures, region_features
from vlbench.data.tables import column_from, in_memory
from vlbench.errors import DataAbsent, DataError
from vlbench.system.files import MOST_ANNOTATIONS, is_file_name, read_bytes

HOME = "cs.stanford.edu/people/karpathy/deepimagesent (caption_datasets.zip)"
SPLITS = ("train", "val", "test")

Row = dict[str, Any]
# The splits of a file, and the splits that their images are assigned to here.
NAMES = {"train": "train", "restval": "train", "val": "val", "test": "test"}
COCO_FOLDERS = ("train2014", "val2014")
FLICKR30K_FOLDER = "flickr30k-images"
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "file": pa.string(),
        "captions": pa.list_(pa.string()),
        "words": pa.list_(pa.list_(pa.string())),
    }
)
_NUMBERED = re.compile(rf"[0-9]{{1,{2 * MOST_DIGITS}}}\.jpg")


class Source(NamedTuple):
    """A data set in Karpathy's split: its file, its folders of images, and their home pages.

    `row` returns a row of SCHEMA for an image of the file.
    """

    name: str
    file: str
    images: str
    images_home: str
    expected: Mapping[str, int]
    row: Callable[[Mapping[str, Any]], Row]


def karpathy(
    *,
    root: Path,
    regions: Path | None = None,
    pictured: Sequence[str] = SPLITS,
    with_regions: Sequence[str] = SPLITS,
) -> Data:
    """Return COCO's images and captions in Karpathy's split, ordered by image id.

    `captions` are as in the file, in its order, `caption` is the first, and `words` has a list per
    caption. With `regions`, the images may be absent. Raises DataAbsent and DataError.

    Args:
        root: folder with dataset_coco.json and the folders train2014 and val2014.
        regions: file or folder of region features (see `vlbench.data.regions`); None: the data have
            no regions.
        pictured: splits whose images have pictures; the others have captions only.
        with_regions: splits, among the pictured, that have the region features.
    """
    return _load(COCO, root, regions, pictured, with_regions)


def karpathy_flickr30k(
    *,
    root: Path,
    regions: Path | None = None,
    pictured: Sequence[str] = SPLITS,
    with_regions: Sequence[str] = SPLITS,
) -> Data:
    """Return Flickr30k's images and captions in Karpathy's split, ordered by image id.

    An image's id is the number in its file's name. Columns are the same as in `karpathy`. The
    31,014 images are 29,000 train, 1,014 val and 1,000 test. Raises DataAbsent and DataError.

    Args:
        root: folder with dataset_flickr30k.json and the folder flickr30k-images.
        regions: file or folder of region features (see `vlbench.data.regions`); None: the data have
            no regions.
        pictured: splits whose images have pictures; the others have captions only.
        with_regions: splits, among the pictured, that have the region features.
    """
    return _load(FLICKR30K, root, regions, pictured, with_regions)


def _load(
    source: Source,
    root: Path,
    regions: Path | None,
    pictured: Sequence[str],
    with_regions: Sequence[str],
) -> Data:
    for name in (*pictured, *with_regions):
        if name not in SPLITS:
            raise ValueError(f"no split '{name}'; there are {', '.join(SPLITS)}")
    file = root / source.file
    require_files(f"Karpathy's split of {source.name}", HOME, file)
    begin_reading()
    rows = _read(file, source.row)
    features = region_features(regions, numbered=True) if regions else None
    described = dict.fromkeys(with_regions, features)
    images = {
        name: _pictures(source, rows[name], root, described.get(name))
        for name in pictured
        if rows[name]
    }
    splits = {
        name: Split({**images.get(name, {}), **_captions(own)}) for name, own in rows.items() if own
    }
    return Data(splits=splits, expected=source.expected)


def _captions(rows: Sequence[Row]) -> dict[str, Column]:
    column = partial(column_from, in_memory(rows, SCHEMA))
    return {
        "id": column(["id"], int),
        "captions": column(["captions"], list),
        "caption": column(["captions"], itemgetter(0), "text"),
        "words": column(["words"], list),
    }


def _pictures(
    source: Source, rows: Sequence[Row], root: Path, features: RegionFeatures | None
) -> dict[str, Column]:
    """Return the images, which may be absent if they have regions."""
    files = [row["file"] for row in rows]
    folders = sorted({name.partition("/")[0] for name in files})
    absent = [folder for folder in folders if not (root / folder).is_dir()]
    if absent and features is None:
        raise DataAbsent(source.images, source.images_home, str(root / absent[0]))
    images = None if absent else file_images(root, files, listed=source.file)
    return pictures(images, files, features, numbers=[row["id"] for row in rows])


def _read(file: Path, read_row: Callable[[Mapping[str, Any]], Row]) -> dict[str, list[Row]]:
    """Return the rows of each split, ordered by id. Raises DataError for invalid content."""
    split_rows: dict[str, list[Row]] = {name: [] for name in SPLITS}
    with naming_file(file, "Karpathy"):
        content = json.loads(read_bytes(file, MOST_ANNOTATIONS))["images"]
        for image in content:
            split_rows[NAMES[image["split"]]].append(read_row(image))
    repeated = first_repeated(row["id"] for row in chain(*split_rows.values()))
    if repeated is not None:
        raise DataError(f"{file.name}: the image {repeated} occurs twice")
    return {name: sorted(rows, key=lambda row: row["id"]) for name, rows in split_rows.items()}


def _coco_row(image: Mapping[str, Any]) -> Row:
    number = image["cocoid"]
    if type(number) is not int or not 0 <= number < 10 ** (2 * MOST_DIGITS):
        raise ValueError(f"{number!r:.40} is not an id")
    folder, name = image["filepath"], sound_text(image["filename"])
    if folder not in COCO_FOLDERS or not is_file_name(name):
        raise ValueError(f"image {number}: {folder!r:.40} / {name!r:.40} is not a file of COCO")
    return {"id": number, "file": f"{folder}/{name}", **_sentences(image, number)}


def _flickr30k_row(image: Mapping[str, Any]) -> Row:
    name = sound_text(image["filename"])
    if not _NUMBERED.fullmatch(name):
        raise ValueError(f"{name!r:.40} is not a file of Flickr30k, whose names are numbers")
    number = int(name.removesuffix(".jpg"))
    return {"id": number, "file": f"{FLICKR30K_FOLDER}/{name}", **_sentences(image, number)}


def _sentences(image: Mapping[str, Any], number: int) -> Row:
    """Return the captions of an image and their words."""
    sentences = image["sentences"]
    captions = [sound_text(sentence["raw"]) for sentence in sentences]
    if not captions:
        raise ValueError(f"image {number} has no sentence")
    words = [[sound_text(word) for word in sentence["tokens"]] for sentence in sentences]
    return {"captions": captions, "words": words}


COCO = Source(
    "COCO",
    "dataset_coco.json",
    "COCO 2014",
    "cocodataset.org/#download (train2014.zip, val2014.zip)",
    {"train": 113_287, "val": 5_000, "test": 5_000},
    _coco_row,
)
FLICKR30K = Source(
    "Flickr30k",
    "dataset_flickr30k.json",
    "Flickr30k's images",
    "shannon.cs.illinois.edu/DenotationGraph",
    {"train": 29_000, "val": 1_014, "test": 1_000},
    _flickr30k_row,
)
