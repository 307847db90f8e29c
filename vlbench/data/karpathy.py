"""COCO's captions in Karpathy's split. Karpathy and Fei-Fei 2015, arXiv:1412.2306.

`dataset_coco.json` divides the images of 2014 into train (with restval, as captioners are trained),
val and test, and has the words of each caption: in lower case, without punctuation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from vlbench.data.coco_files import MISFITS, MOST_DIGITS, first_repeated, sound_text
from vlbench.data.images import file_images
from vlbench.data.pictures import pictures
from vlbench.data.presence import begin_reading
from vlbench.data.records import Data, Split
from vlbench.data.regions import RegionFeatures, region_features
from vlbench.data.tables import column_from, in_memory
from vlbench.errors import DataAbsent, DataError
from vlbench.files import MOST_ANNOTATIONS, is_file_name, read_bytes

FILE = "dataset_coco.json"
HOME = "cs.stanford.edu/people/karpathy/deepimagesent (caption_datasets.zip)"
IMAGES_HOME = "cocodataset.org/#download (train2014.zip, val2014.zip)"

EXPECTED = {"train": 113_287, "val": 5_000, "test": 5_000}
SPLITS = tuple(EXPECTED)

# The split of the file to the split that its images are in.
NAMES = {"train": "train", "restval": "train", "val": "val", "test": "test"}

FOLDERS = ("train2014", "val2014")

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "file": pa.string(),
        "captions": pa.list_(pa.string()),
        "words": pa.list_(pa.list_(pa.string())),
    }
)

Row = dict[str, Any]


def karpathy(
    *,
    root: Path,
    regions: Path | None = None,
    pictured: Sequence[str] = SPLITS,
    with_regions: Sequence[str] = SPLITS,
) -> Data:
    """Return COCO's images and captions in Karpathy's split, ordered by image id.

    `root` holds the file and the folders train2014 and val2014. `captions` are as written, ordered
    as in the file, `caption` is the first, and `words` has a list per caption. The splits
    `pictured` have pictures, the others captions alone. Of those, the splits `with_regions` have
    region features (see `vlbench.data.regions`) where `regions` are given; with them, the images
    may be absent. Raises DataAbsent and DataError.
    """
    for name in (*pictured, *with_regions):
        if name not in SPLITS:
            raise ValueError(f"no split '{name}'; there are {', '.join(SPLITS)}")
    file = root / FILE
    if not file.is_file():
        raise DataAbsent("Karpathy's split of COCO", HOME, str(file))
    begin_reading()
    rows = _read(file)
    features = region_features(regions, numbered=True) if regions else None
    described = [name for name in pictured if features is not None and name in with_regions]
    splits = {
        name: _split(
            rows[name], root, features if name in described else None, pictured=name in pictured
        )
        for name in SPLITS
        if rows[name]
    }
    return Data(splits=splits, expected=EXPECTED)


def _split(
    rows: Sequence[Row], root: Path, features: RegionFeatures | None, *, pictured: bool
) -> Split:
    table = in_memory(rows, SCHEMA)
    column, files = partial(column_from, table), table.values("file")
    columns = {
        "id": column(["id"], int),
        "captions": column(["captions"], list),
        "caption": column(["captions"], _first, "text"),
        "words": column(["words"], list),
    }
    if not pictured:
        return Split(columns)
    folders = sorted({name.partition("/")[0] for name in files})
    absent = [folder for folder in folders if not (root / folder).is_dir()]
    if absent and features is None:
        raise DataAbsent("COCO 2014", IMAGES_HOME, str(root / absent[0]))
    images = None if absent else file_images(root, files, listed=FILE)
    shown = pictures(images, files, features, numbers=table.values("id"))
    return Split({**shown, **columns})


def _first(captions: Sequence[str]) -> str:
    return captions[0]


def _read(file: Path) -> Mapping[str, list[Row]]:
    """Return the rows of each split, ordered by id. Raises DataError for what does not fit."""
    try:
        content = json.loads(read_bytes(file, MOST_ANNOTATIONS))["images"]
        split_rows: dict[str, list[Row]] = {name: [] for name in SPLITS}
        for image in content:
            split_rows[NAMES[image["split"]]].append(_row(image))
    except OSError as error:
        raise DataError(f"{file.name} cannot be read ({error.strerror})") from error
    except MISFITS as error:
        why = f"{type(error).__name__}: {error}"
        raise DataError(f"{file.name} is not Karpathy's, or not whole ({why:.200})") from error
    repeated = first_repeated(row["id"] for row in chain(*split_rows.values()))
    if repeated is not None:
        raise DataError(f"{file.name}: the image {repeated} stands twice")
    return {name: sorted(rows, key=lambda row: row["id"]) for name, rows in split_rows.items()}


def _row(image: Mapping[str, Any]) -> Row:
    number, sentences = image["cocoid"], image["sentences"]
    if type(number) is not int or not 0 <= number < 10 ** (2 * MOST_DIGITS):
        raise ValueError(f"{number!r:.40} is no id")
    folder, name = image["filepath"], sound_text(image["filename"])
    if folder not in FOLDERS or not is_file_name(name):
        raise ValueError(f"image {number}: {folder!r:.40} / {name!r:.40} is no file of COCO's")
    captions = [sound_text(sentence["raw"]) for sentence in sentences]
    if not captions:
        raise ValueError(f"image {number} has no sentence")
    words = [[sound_text(word) for word in sentence["tokens"]] for sentence in sentences]
    return {"id": number, "file": f"{folder}/{name}", "captions": captions, "words": words}
