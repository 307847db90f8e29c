"""SugarCrepe: captions of COCO's val2017 with fluent foils. Hsieh et al. 2023, arXiv:2306.14610.

The files are in `data` of github.com/RAIVNLab/sugar-crepe (MIT) at commit 0047054: one
object per file, of items with the keys `filename`, `caption` and `negative_caption`. A foil adds,
replaces or swaps an object, an attribute or a relation.

Known faults: nearly all foils of add_att and add_obj are longer than their captions (2,726 of
2,754). In 572 items (164 of swap_obj, 408 of swap_att), caption and foil are the same words in
another order, so a model that ignores order gets at most half of them (issue 10 of the
repository).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from vlbench.data.foils import (
    COCO_VAL2017,
    Foiled,
    foil_data,
    image_file,
    read_json_items,
    require_text,
)
from vlbench.data.images import published_images
from vlbench.data.presence import begin_reading, require_files, require_images
from vlbench.data.records import Data

HOME = "github.com/RAIVNLab/sugar-crepe (folder data)"

# The number of items in each file; a file is a category.
COUNTS = {
    "add_att": 692,
    "add_obj": 2062,
    "replace_att": 788,
    "replace_obj": 1652,
    "replace_rel": 1406,
    "swap_att": 666,
    "swap_obj": 245,
}


def sugar_crepe(*, root: Path, images: Path, pixels: bool = True) -> Data:
    """Return the items of all seven files in turn; the file's name is the category.

    The columns are listed in `vlbench.data.foils.foil_data`. Raises DataAbsent and DataError.

    Args:
        root: folder of the files, or the folder that contains data, as in a clone.
        images: COCO's folder val2017; its images are identified by their names.
        pixels: whether images are read; recorded answers do not need them.
    """
    folder = root / "data" if (root / "data").is_dir() else root
    files = {category: folder / f"{category}.json" for category in COUNTS}
    require_files("SugarCrepe", HOME, *files.values())
    absent = require_images("COCO's val2017", COCO_VAL2017, images, pixels=pixels)
    begin_reading()
    items = [
        item
        for category, file in files.items()
        for item in read_json_items(file, partial(_item, category))
    ]
    listed = f"{min(COUNTS)}.json to {max(COUNTS)}.json"
    column = partial(published_images, "COCO val2017", images, listed=listed, absent=absent)
    return foil_data(items, column, sum(COUNTS.values()))


def _item(category: str, entry: Mapping[str, Any]) -> Foiled:
    caption, foil = require_text(entry["caption"]), require_text(entry["negative_caption"])
    return Foiled(image_file(entry["filename"]), caption, [foil], category)
