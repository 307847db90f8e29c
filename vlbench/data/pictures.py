"""The columns `image`, `regions` and `picture`: an image, its region features, and both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vlbench.capabilities import Picture, Regions
from vlbench.data.records import Column, Data, Split
from vlbench.data.regions import RegionFeatures, image_id
from vlbench.digests import digest
from vlbench.errors import DataError


def pictures(
    images: Column | None, names: Sequence[str], features: RegionFeatures | None
) -> dict[str, Column]:
    """Return the column `picture`, and `image` and `regions` where they are given.

    `names` identify the images in `features`. Raises DataError for an image without regions.
    """
    columns = {} if images is None else {"image": images}
    if features is not None:
        lacking = [name for name in names if image_id(name) not in features]
        if lacking:
            missing = f"missing for {len(lacking)} of {len(names)} images"
            raise DataError(f"{features.name} has no regions of image {lacking[0]} ({missing})")
        stored = _RegionsOfImages(features, names)
        key = digest(["regions", features.key, list(names)])
        columns["regions"] = Column(key, "value", stored, range(len(names)))
    picture = _PicturesOfImages(columns.get("image"), columns.get("regions"))
    key = digest(["picture", *((name, column.key) for name, column in columns.items())])
    whole = Column(key, "picture", picture, range(len(names)), names=list(names))
    return {**columns, "picture": whole}


def only_in_pictures(data: Data) -> Data:
    """Return the data without the column `regions` that `pictures` made: models see them alone."""
    return _map_columns(data, lambda c: None if isinstance(c.stored, _RegionsOfImages) else c)


def apart_from_regions(data: Data) -> Data:
    """Return what the data are whatever regions are in the pictures that `pictures` made.

    It is for digests: such pictures are known by their names, beside the column `image`.
    """

    def apart(column: Column) -> Column:
        if not isinstance(column.stored, _PicturesOfImages):
            return column
        return replace(column, key=digest(["names of pictures", list(column.names)]))

    return _map_columns(only_in_pictures(data), apart)


def _map_columns(data: Data, change: Callable[[Column], Column | None]) -> Data:
    """Return the data with each column changed, or left out for None."""
    splits = {}
    for split, rows in data.splits.items():
        columns = {name: change(column) for name, column in rows.columns.items()}
        splits[split] = Split({name: c for name, c in columns.items() if c is not None})
    return replace(data, splits=splits)


@dataclass(frozen=True, eq=False)
class _RegionsOfImages(Sequence[Any]):
    """The regions of each image in this order, read on each access."""

    features: Mapping[str, Regions]
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: Any) -> Any:
        return self.features[image_id(self.names[i])]


@dataclass(frozen=True, eq=False)
class _PicturesOfImages(Sequence[Any]):
    """A Picture per image, of its image and its regions where they are given."""

    images: Column | None
    regions: Column | None

    def __len__(self) -> int:
        return len(self.images if self.images is not None else self.regions or ())

    def __getitem__(self, i: Any) -> Any:
        image = None if self.images is None else self.images[i]
        return Picture(image, None if self.regions is None else self.regions[i])
