"""Caltech-UCSD Birds-200-2011. Wah et al. 2011, technical report CNS-TR-2011-001."""

import re
from pathlib import Path

from vlbench.data.coco_files import first_repeated, is_number, lines_of, read_text
from vlbench.data.images import file_images, labelled
from vlbench.data.presence import begin_reading
from vlbench.data.records import LISTED, Data, Split
from vlbench.errors import DataAbsent, DataError

HOME = "vision.caltech.edu/datasets/cub_200_2011 (CUB_200_2011.tgz)"
LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")
FLAGS = {"train": 1, "test": 0}
EXPECTED = {"train": 5_994, "test": 5_794}


def cub(*, root: Path) -> Data:
    """Return the birds in the official split.

    Classes are the species: `001.Black_footed_Albatross` becomes `Black footed Albatross`.

    Args:
        root: folder of classes.txt and the other lists, or the folder that contains CUB_200_2011.
    """
    folder = root / "CUB_200_2011" if (root / "CUB_200_2011").is_dir() else root
    if not all((folder / name).is_file() for name in LISTS):
        where = f"{root}/CUB_200_2011/: {', '.join(LISTS)} and images/"
        raise DataAbsent("CUB-200-2011", HOME, where)
    begin_reading()
    images, names = _table(folder, LISTS[0]), _table(folder, LISTS[3])
    labels, flags = (_numbers(folder, name, images) for name in LISTS[1:3])
    if sorted(names) != list(range(1, len(names) + 1)):
        raise DataError("classes.txt must number its lines from 1")
    odd = [i for i in sorted(images) if flags[i] not in FLAGS.values()]
    if odd:
        raise DataError(f"train_test_split.txt: image {odd[0]} is neither 1 (train) nor 0 (test)")
    classes = [re.sub(r"^\d+\.", "", names[i]).replace("_", " ") for i in sorted(names)]
    ids = {split: [i for i in sorted(images) if flags[i] == flag] for split, flag in FLAGS.items()}
    splits = {
        split: _split(folder, [images[i] for i in rows], [labels[i] for i in rows], len(classes))
        for split, rows in ids.items()
        if rows
    }
    expected = {split: EXPECTED[split] for split in splits}
    return Data(splits=splits, classes=classes, expected=expected, class_order=LISTED)


def _split(folder: Path, names: list[str], labels: list[int], classes: int) -> Split:
    """Return a split of images whose labels count from 1."""
    images = file_images(folder, [f"images/{name}" for name in names], listed=LISTS[0])
    from_zero = [label - 1 for label in labels]
    return labelled(images, from_zero, classes=classes, where="image_class_labels.txt, from 0")


def _numbers(folder: Path, name: str, images: dict[int, str]) -> dict[int, int]:
    """Return the number of each image in a list."""
    table = _table(folder, name)
    missing = sorted(images.keys() - table.keys())
    if missing:
        raise DataError(f"{name} does not contain image {missing[0]} of images.txt")
    wrong = [value for value in table.values() if not is_number(value)]
    if wrong:
        raise DataError(f"{name}: '{wrong[0]}' is not a number")
    return {i: int(value) for i, value in table.items()}


def _table(folder: Path, name: str) -> dict[int, str]:
    """Return the value of each id: a line is an id, a blank and the value. Raises DataError."""
    lines = [line.split(maxsplit=1) for line in lines_of(read_text(folder / name))]
    wrong = [i for i, line in enumerate(lines, 1) if len(line) != 2 or not is_number(line[0])]
    if wrong:
        raise DataError(f"{name}, line {wrong[0]}: must be an id and a value")
    repeated = first_repeated(int(key) for key, _ in lines)
    if repeated is not None:
        raise DataError(f"{name} has two lines of id {repeated}; fetch it again")
    return {int(key): value.strip() for key, value in lines}
