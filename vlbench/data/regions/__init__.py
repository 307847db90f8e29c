"""Region features made beforehand, in the files that detectors' users share."""

from vlbench.data.regions.features import RegionFeatures, image_id, region_features

__all__ = ["RegionFeatures", "image_id", "region_features"]
