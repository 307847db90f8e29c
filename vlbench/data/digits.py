"""The handwritten digits inside scikit-learn: 1,797 images of 8x8 pixels, no download.

The file is read without scikit-learn, because its import takes seconds. The default split was drawn
by scikit-learn, stratified by class; its rows are pinned in `digits_split.json`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from vlbench.data.formats.archives import DAMAGED
from vlbench.data.images import DIGITS, array_images, labelled
from vlbench.data.presence import begin_reading, package_file
from vlbench.data.records import LISTED, Data
from vlbench.errors import DataError

FILE = "datasets/data/digits.csv.gz"
PINNED = Path(__file__).with_name("digits_split.json")


def digits(*, test_share: float = 0.5, seed: int = 0) -> Data:
    """Return the digits with grey levels 0..16 scaled to 0..255, split at random with a seed.

    The split is stratified by class. Both splits select from one stored column, so features are
    computed once for all splits.

    Args:
        test_share: fraction of the images that are test images, between 0 and 1.
        seed: seed that draws the split.
    """
    file = package_file("scikit-learn's digits", "sklearn", "scikit-learn", FILE)
    begin_reading()
    table = _table(file)
    images, label = table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(int).tolist()
    pixels = np.round(images * 255 / 16).astype(np.uint8)
    whole = labelled(array_images(pixels), label, classes=10, where="digits")
    test = _test_rows(label, test_share, seed)
    train = sorted(set(range(len(whole))) - set(test))
    splits = {"train": whole.select(train), "test": whole.select(test)}
    return Data(splits=splits, classes=DIGITS, class_order=LISTED)


def _table(file: Path) -> Any:
    """Return the 64 pixels and the label of each image, float64 [N, 65]. Raises DataError."""
    try:
        table = np.loadtxt(file, delimiter=",", ndmin=2)
    except DAMAGED as error:
        raise DataError(
            f"{file.name} cannot be read ({error}); install scikit-learn again"
        ) from error
    if table.shape[1:] != (65,) or not ((table >= 0) & (table <= 16)).all():
        raise DataError(f"{file.name} must contain 65 numbers in 0..16 per line")
    return table


def _test_rows(label: list[int], share: float, seed: int) -> list[int]:
    """Return the rows of the test split, ascending."""
    pinned: dict[str, Any] = json.loads(PINNED.read_text("utf-8"))
    if (share, seed) == (pinned["test_share"], pinned["seed"]):
        return list(pinned["test"])
    from sklearn.model_selection import train_test_split  # noqa: PLC0415 - takes seconds

    _, test = train_test_split(
        range(len(label)), test_size=share, stratify=label, random_state=seed
    )
    return sorted(test)
