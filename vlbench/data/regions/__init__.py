"""Precomputed region features, in the file formats in which they are shared."""

from vlbench.data.regions.features import RegionFeatures, image_id, region_features

__all__ = ["RegionFeatures", "image_id", "region_features"]
