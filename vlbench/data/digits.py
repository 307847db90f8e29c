"""Handwritten digits that come with scikit-learn: 1,797 images of 8x8, nothing to fetch."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from vlbench.data.images import DIGITS, array_images, labelled
from vlbench.data.records import Data


def digits(*, test_share: float = 0.5, seed: int = 0) -> Data:
    """Return the digits with grey levels 0..16 stretched to 0..255, split by a seeded draw.

    The draw is stratified by class; both splits select from one stored column, so that its
    features are computed once whatever the split.
    """
    source = load_digits()
    pixels = np.round(source.images * 255 / 16).astype(np.uint8)
    whole = labelled(array_images(pixels), source.target.tolist(), classes=10, where="digits")
    rows = range(len(whole))
    train, test = train_test_split(
        rows, test_size=test_share, stratify=source.target, random_state=seed
    )
    splits = {"train": whole.select(sorted(train)), "test": whole.select(sorted(test))}
    return Data(splits=splits, classes=DIGITS)
