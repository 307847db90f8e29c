"""The columns `image`, `regions` and `picture`: an image, its region features, and both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vlbench.capabilities import Picture
from vlbench.data.images import DecodedImages
from vlbench.data.records import Column, Data, Split
from vlbench.data.regions import RegionFeatures, image_name, image_number
from vlbench.errors import DataError
from vlbench.system.digests import digest


def pictures(
    images: Column | None,
    names: Sequence[str],
    features: RegionFeatures | None,
    *,
    numbers: Sequence[object] = (),
) -> dict[str, Column]:
    """Return the column `picture`, and `image` and `regions` if they are given.

    `names` identify the images in `features`, whole (see `image_name`). If the data set numbers
    its images, as COCO does, `numbers` identify them in features that are `numbered`. Raises
    DataError for an image without regions, for two images that share a name, and, when regions are
    read, for regions of an image of another size.
    """
    columns = {} if images is None else {"image": images}
    if features is not None:
        keys = [*map(image_number, map(str, numbers))] or [*map(image_name, names)]
        lacking = [name for name, key in zip(names, keys, strict=True) if key not in features]
        if lacking:
            missing = f"missing for {len(lacking)} of {len(names)} images"
            raise DataError(f"{features.name} has no regions of image {lacking[0]} ({missing})")
        stored = _RegionsOfImages(features, names, keys, images)
        _require_one_image_each([("", stored)])
        key = digest(["regions", features.key, list(names)])
        columns["regions"] = Column(key, "value", stored, range(len(names)), names=list(names))
    picture = _PicturesOfImages(columns.get("image"), columns.get("regions"))
    key = digest(["picture", *((name, column.key) for name, column in columns.items())])
    whole = Column(key, "picture", picture, range(len(names)), names=list(names))
    if images is not None and images.known_as:
        regions = columns["regions"].key if "regions" in columns else ""
        whole = replace(whole, known_as=digest(["picture", images.known_as, regions]))
    return {**columns, "picture": whole}


def require_own_regions(splits: Mapping[str, Split]) -> None:
    """Raise DataError for images of two splits that share the name by which regions are found."""
    stored = [
        (name, rows["regions"].stored) for name, rows in splits.items() if "regions" in rows.columns
    ]
    parts = [(f" of {name}", one) for name, one in stored if isinstance(one, _RegionsOfImages)]
    _require_one_image_each(parts)


def _require_one_image_each(parts: Sequence[tuple[str, _RegionsOfImages]]) -> None:
    """Raise DataError for two different images of one name; rows of one image may share it."""
    seen: dict[str, tuple[str, str]] = {}
    for part, stored in parts:
        for name, key, content in zip(stored.names, stored.keys, stored.contents(), strict=True):
            label = f"{name}{part}"
            before, old = seen.setdefault(key, (label, content))
            if old != content:
                raise DataError(
                    f"{stored.features.name}: the images {before} and {label} would both have the "
                    f"regions of {key}; give each image a different name, such as an `item`"
                )


def only_in_pictures(data: Data) -> Data:
    """Return the data with regions only in `picture`: drop the columns `regions` of `pictures`."""
    return _map_columns(data, lambda c: None if isinstance(c.stored, _RegionsOfImages) else c)


def apart_from_regions(data: Data) -> Data:
    """Return data that are the same for all regions in the pictures made by `pictures`.

    They are for digests: the pictures are identified by their names, beside the column `image`.
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
    """The regions of each image in this order, by their keys, read on each access."""

    features: RegionFeatures
    names: Sequence[str]
    keys: Sequence[str]
    images: Column | None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: Any) -> Any:
        return self.features.of(self.keys[i], self._size(i))

    def _size(self, i: int) -> tuple[int, int] | None:
        """Return the (W, H) of image i; only the header is read if it exists."""
        if self.images is None:
            return None
        stored, row = self.images.stored, self.images.rows[i]
        return stored.size(row) if isinstance(stored, DecodedImages) else stored[row].size

    def contents(self) -> Sequence[str]:
        """Return values that identify images: their digests, or else their names."""
        if self.images is None or not self.images.digests:
            return self.names
        return [self.images.digests[row] for row in self.images.rows]


@dataclass(frozen=True, eq=False)
class _PicturesOfImages(Sequence[Any]):
    """A Picture per image, with its image and its regions if they are given."""

    images: Column | None
    regions: Column | None

    def __len__(self) -> int:
        return len(self.images if self.images is not None else self.regions or ())

    def __getitem__(self, i: Any) -> Any:
        image = None if self.images is None else self.images[i]
        return Picture(image, None if self.regions is None else self.regions[i])
