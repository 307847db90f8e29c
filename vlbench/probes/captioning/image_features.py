"""What the captioner sees of an image: encoders' features, region vectors, or ready files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from vlbench.capabilities import ImageEncoder, Regions
from vlbench.data.archives import DAMAGED, read_npy
from vlbench.data.records import Split
from vlbench.data.regions import image_id, region_features
from vlbench.data.regions.features import KINDS
from vlbench.engine import Engine
from vlbench.errors import DataAbsent, DataError, SpecError

# How the vectors of an image's regions become one.
Pool = Literal["sum", "mean", "none"]


def image_features(
    split: Split,
    engine: Engine,
    encoders: Sequence[ImageEncoder],
    *,
    regions: Pool = "none",
    files: Path | None = None,
) -> list[Tensor]:
    """Return float32 [N, D] of each source of features, in order, for the images of a split.

    First the pooled vectors of the data's regions, or in their place those in `files`: a folder
    with one NAME.npy per image, or region features, pooled by their mean unless `regions` is sum.
    Then each encoder's. Raises SpecError where there is no source, DataError for an image without
    features.
    """
    found = [_pooled(split, engine, regions)] if regions != "none" and files is None else []
    if files is not None:
        found.append(_stored(split, files, "mean" if regions == "none" else regions))
    found += [engine.features(encoder.encode_images, split["image"]) for encoder in encoders]
    if not found:
        raise SpecError(
            "the captioner sees nothing: give it encoders of images, regions: sum or mean, or "
            "files with features"
        )
    return found


def _pooled(split: Split, engine: Engine, pool: Pool) -> Tensor:
    """Return the sum or the mean of the vectors of each image's regions."""
    if "regions" not in split.columns:
        raise DataError(
            f"the captioner asks for regions: {pool}, but the data have no regions, or with "
            "own_regions none that all models share; give it features or encoders"
        )
    function = _sums if pool == "sum" else _means
    return _stacked(engine.map(function, split["regions"], key={"what": "pooled regions"}))


def _sums(regions: Sequence[Regions]) -> list[Tensor]:
    return [_vectors(one).sum(0) for one in regions]


def _means(regions: Sequence[Regions]) -> list[Tensor]:
    return [_vectors(one).mean(0) for one in regions]


def _vectors(regions: Regions) -> Tensor:
    if regions.vectors is None or not len(regions.vectors):
        raise DataError("the captioner pools region vectors, but an image has none")
    return regions.vectors.float()


def _stored(split: Split, files: Path, pool: Pool) -> Tensor:
    """Return the features of each image in a folder of .npy files or in region features."""
    names = split["picture"].examples().ids
    if not files.exists():
        raise DataAbsent("features of images", "whoever made them", str(files))
    if files.is_dir() and not any(file.suffix in KINDS for file in files.iterdir()):
        return _stacked([_array(files, name) for name in names])
    stored = region_features(files)
    lacking = [name for name in names if image_id(name) not in stored]
    if lacking:
        raise DataError(f"{files.name} has no regions of image {lacking[0]}")
    regions = [stored[image_id(name)] for name in names]
    return _stacked(_sums(regions) if pool == "sum" else _means(regions))


def _array(folder: Path, name: str) -> Tensor:
    """Return the features in NAME.npy or NUMBER.npy, as ImageCaptioning.pytorch names them."""
    stem = name.rsplit("/", 1)[-1]
    files = [folder / f"{one}.npy" for one in (stem, Path(stem).stem, image_id(name))]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise DataError(f"{folder.name} has no features of image {name} ({files[-1].name})")
    try:
        found: Any = read_npy(file)
    except DAMAGED as error:
        raise DataError(f"{file.name} cannot be read ({error}); make it again") from error
    if found.ndim != 1 or found.dtype.kind not in "fiu":
        raise DataError(f"{file.name} has {found.dtype} {found.shape}, not one axis of numbers")
    return torch.tensor(found, dtype=torch.float32)


def _stacked(rows: Sequence[Tensor]) -> Tensor:
    widths = sorted({len(row) for row in rows})
    if len(widths) != 1:
        raise DataError(f"features of images have different widths: {widths}")
    found = torch.stack(list(rows)).float()
    if not found.isfinite().all():
        raise DataError("features of images have numbers that are not finite")
    return found
