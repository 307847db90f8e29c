"""Precomputed region features, in the file formats in which they are shared."""

from vlbench.data.regions.features import RegionFeatures, region_features
from vlbench.data.regions.names import image_name, image_names, image_number

__all__ = ["RegionFeatures", "image_name", "image_names", "image_number", "region_features"]
