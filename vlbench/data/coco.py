"""COCO: boxes and captions of the same images. Lin et al. 2014, arXiv:1405.0312."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from vlbench.data.category_words import ClassNames, read_class_names
from vlbench.data.coco_files import AnnotatedImage, Named, annotated_images, read_instances
from vlbench.data.images import sized_images
from vlbench.data.pictures import pictures
from vlbench.data.presence import begin_reading, require_files
from vlbench.data.records import Data, Split
from vlbench.data.regions import region_features
from vlbench.data.tables import box_tensor, column_from, in_memory
from vlbench.errors import DataAbsent

HOME = "cocodataset.org/#download"
NAMES_HOME = "github.com/jiasenlu/NeuralBabyTalk, data/coco"
EXPECTED = {
    2014: {"train": 82_783, "val": 40_504},
    2017: {"train": 118_287, "val": 5_000},
}
SPLITS = ("train", "val")

# The note on annotations that are left out.
NO_THING = "annotations of crowds, or without area"

_NAMED = {
    "category": pa.string(),
    "word": pa.string(),
    "start": pa.int32(),
    "end": pa.int32(),
}
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "file": pa.string(),
        "size": pa.list_(pa.int32()),
        "boxes": pa.list_(pa.list_(pa.float32())),
        "categories": pa.list_(pa.string()),
        "captions": pa.list_(pa.string()),
        "caption": pa.string(),
        "named": pa.list_(pa.struct(_NAMED)),
    }
)

Row = dict[str, Any]


def coco(
    *,
    root: Path,
    class_names: Path | None = None,
    regions: Path | None = None,
    splits: Sequence[str] = SPLITS,
    year: Literal[2014, 2017] = 2017,
) -> Data:
    """Return COCO's images, ordered by id; classes are the 80 categories in COCO's order.

    `boxes` are ground truth, float32 [n, 4] xyxy pixels cut to the image, one per annotation, and
    `categories` their names. Crowds (which are not single things) and boxes without area are left
    out and counted in `dropped`. `captions` are ordered by annotation id. `caption` is the caption
    that names the most fine-grained classes (of several, the first): `a man, a woman and a child`
    names three. `named` has one `Named` per category in `caption`, for the first word that names
    it, in the caption's order. With `regions`, the images may be absent.

    Args:
        root: folder with annotations and the folders of images, such as train2017.
        class_names: file that lists the fine-grained classes; None: coco_class_name.txt in `root`.
        regions: file or folder of region features (see `vlbench.data.regions`), found by image id;
            None: the data have no regions.
        splits: splits to read: train, val, or both.
        year: year of the splits, 2014 or 2017.
    """
    if unknown := [name for name in splits if name not in SPLITS]:
        raise ValueError(f"no split '{unknown[0]}'; there are {', '.join(SPLITS)}")
    file = class_names or root / "coco_class_name.txt"
    require_files("the list of COCO's fine-grained names", NAMES_HOME, file)
    parts = {name: f"{name}{year}" for name in splits}
    files = {
        name: [root / f"annotations/{kind}_{part}.json" for kind in ("instances", "captions")]
        for name, part in parts.items()
    }
    folders = [] if regions else [root / part for part in parts.values()]
    if absent := [path for path in [*chain(*files.values()), *folders] if not path.exists()]:
        archives = ", ".join(f"{name}{year}.zip" for name in ("annotations_trainval", *splits))
        raise DataAbsent(f"COCO {year}", f"{HOME} ({archives})", str(absent[0]))
    begin_reading()
    instances = {name: read_instances(pair[0]) for name, pair in files.items()}
    categories = next(iter(instances.values())).categories.values()
    names = read_class_names(file, list(categories))
    dropped = Counter[str]()
    return Data(
        splits={
            name: _split(
                _rows(annotated_images(content, files[name][1]), names, dropped),
                root / parts[name],
                regions,
            )
            for name, content in instances.items()
        },
        classes=names.categories,
        expected={name: EXPECTED[year][name] for name in splits},
        dropped=+dropped,
    )


def _rows(
    images: Iterable[AnnotatedImage], names: ClassNames, dropped: Counter[str]
) -> Iterator[Row]:
    """Yield a row per image, and add the number of its omitted annotations to `dropped`."""
    for image in images:
        dropped[NO_THING] += image.left_out
        best = max(image.captions, key=names.count)
        yield {
            "id": image.number,
            "file": image.file,
            "size": image.size,
            "boxes": [thing.box for thing in image.things],
            "categories": [thing.category for thing in image.things],
            "captions": image.captions,
            "caption": best,
            "named": [word._asdict() for word in names.named(best)],
        }


def _split(rows: Iterator[Row], folder: Path, regions: Path | None) -> Split:
    table = in_memory(rows, SCHEMA)
    column = partial(column_from, table)
    ids, files, sizes = map(table.values, ("id", "file", "size"))
    images = None
    if folder.is_dir():
        file = f"instances_{folder.name}.json"
        images = sized_images(folder, files, sizes, listed=file, sized_in=file)
    by_id = dict(zip(map(str, ids), sizes, strict=True))
    features = region_features(regions, by_id, numbered=True) if regions else None
    return Split(
        {
            **pictures(images, files, features, numbers=ids),
            "id": column(["id"], int),
            "boxes": column(["boxes"], box_tensor),
            "categories": column(["categories"], list),
            "captions": column(["captions"], list),
            "caption": column(["caption"], str, "text"),
            "named": column(["named"], _name_objects),
        }
    )


def _name_objects(words: Sequence[Mapping[str, Any]]) -> list[Named]:
    return [Named(**word) for word in words]
