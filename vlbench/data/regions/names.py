"""The names that match regions to images."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlbench.data.images import SUFFIXES
from vlbench.data.names import normal_form
from vlbench.errors import DataError

_ENDING = re.compile(rf"({'|'.join(map(re.escape, (*SUFFIXES, '.npz')))})+$", re.IGNORECASE)

# 000000000042, COCO_val2014_000000000042 (UNITER's coco_val2014_...) and flickr30k_000000000042.
_NUMBERED = re.compile(r"((COCO|coco)_[a-z]+\d{4}_|flickr30k_)?0*(\d+)")


def image_name(name: str) -> str:
    """Return the whole name of an image: its file's name, without folders and image suffixes.

    `dogs/dog_1.jpg`, `dog_1.jpg.npz` and `dog_1` are `dog_1`, and `cat_1` is another image.
    """
    return normal_form(_ENDING.sub("", name.rsplit("/", 1)[-1]))


def image_names(names: Sequence[str]) -> list[str]:
    """Return the whole name of each image. Raises DataError for two images that share a name."""
    owners: dict[str, str] = {}
    for name in names:
        if (other := owners.setdefault(image_name(name), name)) != name:
            raise DataError(
                f"the images {other} and {name} share the name {image_name(name)}; give each "
                "image a different name, such as an `item`"
            )
    return [image_name(name) for name in names]


def image_number(name: str) -> str:
    """Return the id of an image in COCO or Flickr30k, without leading zeros; else its whole name.

    `COCO_val2014_000000058350.jpg` is 58350. Use it only for data sets that number their images: a
    user's `dog_1` and `cat_1` end in the same digits.
    """
    whole = image_name(name)
    numbered = _NUMBERED.fullmatch(whole)
    return numbered[3] if numbered else whole
