"""The columns `image`, `regions` and `picture`: an image, its region features, and both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vlbench.capabilities import Picture, Regions
from vlbench.data.records import Column
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
