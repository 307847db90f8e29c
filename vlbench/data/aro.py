"""ARO: Visual Genome relations and attributions. Yuksekgonul et al. 2023, arXiv:2210.01936.

The files are read as by `dataset_zoo/aro_datasets.py` of
github.com/mertyg/vision-language-models-are-bows (MIT) at commit 81fdd20, which also links to them.
They are lists of items with the keys `image_path`, `bbox_x`, `bbox_y`, `bbox_w`, `bbox_h`,
`true_caption`, `false_caption`, and `relation_name` or `attributes` (two of them). An item's image
is the crop of its box.

ARO's COCO-Order and Flickr30k-Order have no loader: their foils are drawn anew on each run, with
spaCy's tags and an unseeded shuffle, so no file contains them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from PIL.Image import Image

from vlbench.data.foils import (
    Foiled,
    foil_data,
    image_file,
    read_json_items,
    require_text,
)
from vlbench.data.images import (
    MOST_PIXELS,
    DecodedImages,
    file_images,
    image_column,
    named_images,
)
from vlbench.data.presence import begin_reading, require_files, require_images
from vlbench.data.records import Column, Data
from vlbench.errors import DataError
from vlbench.system.digests import digest

HOME = "github.com/mertyg/vision-language-models-are-bows (the drive that its reader names)"
RELATIONS, ATTRIBUTIONS = 23_937, 28_748
SIDES = ("bbox_x", "bbox_y", "bbox_w", "bbox_h")

Box = tuple[int, int, int, int]


class Crop(NamedTuple):
    """A file and an item's box in it, xyxy in whole pixels."""

    file: str
    box: Box


def visual_genome_relation(*, root: Path, pixels: bool = True) -> Data:
    """Return the items of visual_genome_relation.json; the category is the relation.

    The foil has subject and object exchanged. The columns are listed in
    `vlbench.data.foils.foil_data`; `cluster` is the file that an image is cropped from. Raises
    DataAbsent and DataError.

    Args:
        root: folder with visual_genome_relation.json and the folder images.
        pixels: whether images are read; recorded answers do not need them.
    """
    name, category = "visual_genome_relation.json", itemgetter("relation_name")
    return _read_aro(root, name, category, RELATIONS, pixels=pixels)


def visual_genome_attribution(*, root: Path, pixels: bool = True) -> Data:
    """Return the items of visual_genome_attribution.json; the category is `a_b` of the attributes.

    The foil has the attributes of two objects exchanged. Otherwise as `visual_genome_relation`.

    Args:
        root: folder with visual_genome_attribution.json and the folder images.
        pixels: whether images are read; recorded answers do not need them.
    """
    name = "visual_genome_attribution.json"
    return _read_aro(root, name, _attributes, ATTRIBUTIONS, pixels=pixels)


def _read_aro(
    root: Path,
    name: str,
    category: Callable[[Mapping[str, Any]], str],
    expected: int,
    *,
    pixels: bool,
) -> Data:
    file, folder = root / name, root / "images"
    require_files("ARO", HOME, file)
    absent = require_images("the images of ARO", HOME, folder, pixels=pixels)
    begin_reading()
    read = read_json_items(file, partial(_item, category))
    crops = {item.image: crop for item, crop in read}

    def images(names: Sequence[str]) -> Column:
        cut = _cut(folder, name, crops, names) if pixels else None
        return named_images("ARO, crops of Visual Genome", names, cut, absent)

    return foil_data([item for item, _ in read], images, expected)


def _item(
    category: Callable[[Mapping[str, Any]], str], entry: Mapping[str, Any]
) -> tuple[Foiled, Crop]:
    crop = Crop(image_file(entry["image_path"]), _box([entry[side] for side in SIDES]))
    name = f"{crop.file} {','.join(map(str, crop.box))}"
    caption, foil = require_text(entry["true_caption"]), require_text(entry["false_caption"])
    return Foiled(name, caption, [foil], require_text(category(entry)), crop.file), crop


def _attributes(entry: Mapping[str, Any]) -> str:
    attributes = entry["attributes"]
    if not isinstance(attributes, list) or len(attributes) != 2:
        raise ValueError(f"{attributes!r:.80} must be two attributes")
    return "_".join(map(require_text, attributes))


def _box(sides: Sequence[Any]) -> Box:
    """Return x, y, width and height as corners in whole pixels, rounded as Pillow's crop does."""
    if any(type(side) not in (int, float) or not math.isfinite(side) for side in sides):
        raise TypeError(f"the box {sides!r:.80} is not a box")
    x, y, width, height = sides
    left, top, right, bottom = map(round, (x, y, x + width, y + height))
    if left >= right or top >= bottom or (right - left) * (bottom - top) > MOST_PIXELS:
        raise ValueError(f"the box {sides!r:.80} has no area or is too large")
    return left, top, right, bottom


def _cut(folder: Path, listed: str, crops: Mapping[str, Crop], names: Sequence[str]) -> Column:
    """Return the crops with these names, cut on each access.

    A crop's digest combines its file's digest and its box.
    """
    files = list(dict.fromkeys(crops[name].file for name in names))
    place = {file: i for i, file in enumerate(files)}
    whole = file_images(folder, files, listed=listed)
    source = [(place[crops[name].file], crops[name].box) for name in names]
    digests = [digest([whole.digests[i], list(box)]) for i, box in source]
    stored = DecodedImages(source, partial(_crop, whole), _size)
    return replace(image_column(stored, digests), names=list(names))


def _crop(whole: Column, source: tuple[int, Box]) -> Image:
    """Return the crop of an image to a box, black outside the image.

    Raises DataError for a box entirely outside the image.
    """
    i, box = source
    image: Image = whole.stored[i]
    if box[0] >= image.width or box[1] >= image.height or box[2] <= 0 or box[3] <= 0:
        size = f"{image.width}x{image.height}"
        raise DataError(f"{whole.names[i]}: the box {box} is outside its {size} pixels; fetch both")
    return image.crop(box)


def _size(source: tuple[int, Box]) -> tuple[int, int]:
    left, top, right, bottom = source[1]
    return right - left, bottom - top
