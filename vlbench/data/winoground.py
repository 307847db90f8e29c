"""Winoground: two images and two captions of the same words. Thrush et al. 2022, arXiv:2204.03162.

The files are in facebook/winoground on the hub (gated, for research only): examples.jsonl has one
object per line with the keys `id`, `image_0`, `image_1` (names without `.png`), `caption_0`,
`caption_1`, `tag`, `secondary_tag`, `num_main_preds` and `collapsed_tag`. The builder script
`winoground.py` of that data set and `dataset/dataset.py` of github.com/ajd12342/why-winoground-hard
at commit 7069ff6 read them in the same way.

Known fault: many items need more than composition, such as the sense of an ambiguous caption, or
the perception of small details (Diwan et al. 2022, arXiv:2211.00768).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from vlbench.data.foils import Twins, image_file, read_json_lines, require_text, twin_data
from vlbench.data.images import published_images
from vlbench.data.presence import begin_reading, require_files, require_images
from vlbench.data.records import Data

HOME = "facebook/winoground on the hub, after you accept its terms (examples.jsonl, images.zip)"
FILE = "examples.jsonl"
EXPECTED = 400


def winoground(*, root: Path, pixels: bool = True) -> Data:
    """Return the examples in the order of the file; the category is `collapsed_tag`.

    The columns are listed in `vlbench.data.foils.twin_data`. Raises DataAbsent and DataError.

    Args:
        root: folder with examples.jsonl and the unpacked folder images; either may also be in the
            folder data inside it. Images are identified by their names.
        pixels: whether images are read; recorded answers do not need them.
    """
    file = root / FILE if (root / FILE).is_file() else root / "data" / FILE
    inner = root / "data" / "images"
    folder = inner if inner.is_dir() else root / "images"
    require_files("Winoground", HOME, file)
    absent = require_images("the images of Winoground", HOME, folder, pixels=pixels)
    begin_reading()
    items = read_json_lines(file, _item)
    images = partial(published_images, "Winoground", folder, listed=FILE, absent=absent)
    return twin_data(items, images, EXPECTED)


def _item(entry: Mapping[str, Any]) -> Twins:
    images = _image(entry["image_0"]), _image(entry["image_1"])
    captions = require_text(entry["caption_0"]), require_text(entry["caption_1"])
    return Twins(images, captions, require_text(entry["collapsed_tag"]))


def _image(name: Any) -> str:
    return f"{image_file(name)}.png"
