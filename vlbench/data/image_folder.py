"""A user's own images, one folder per class: `root/train/<class>/*` and `root/test/<class>/*`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from vlbench.data.folders import (
    count_kinds,
    dropped_files,
    files_beside,
    visible_files,
    visible_folders,
)
from vlbench.data.gate import (
    RowOptions,
    Rows,
    begin,
    columns_of,
    data_of_rows,
    own_columns,
    rows_of_files,
)
from vlbench.data.images import SUFFIXES, file_images
from vlbench.data.names import normal_form
from vlbench.data.presence import require_folder
from vlbench.data.records import OUTPUT_NUMBERS, Data, Split, same_images
from vlbench.errors import DataError

# The fewest distinct images of a class that can be split into two halves.
FEWEST = 2


def image_folder(
    *,
    root: Path,
    train: str = "train",
    test: str = "test",
    class_numbers_are_outputs: bool = False,
    halves: int | None = None,
    **options: Unpack[RowOptions],
) -> Data:
    """Return images labelled by their folder, ordered by class and name.

    If the folder `train` is missing, there is only a test split. Classes are the sorted names of
    the folders in train, or in test if train is missing; test may have fewer classes. Hidden files,
    caches of file managers, files without a suffix of images that Pillow opens, and files outside
    the class folders are left out and counted. Folders inside a class folder belong to the class,
    and links are followed. Rows have the columns `image` (a path) and `label`.

    With `halves`, a root that has neither folder may contain the class folders directly: a random
    half of each class is train, and the other half is test, smaller by one image if their number is
    odd; copies of an image are in one half. Raises DataError with the classes that have fewer than
    two different images.

    Args:
        root: folder with the folders `train` and `test`, or with class folders for `halves`.
        train: folder of the train images in `root`.
        test: folder of the test images in `root`.
        class_numbers_are_outputs: whether the folders are named by numbers of a classifier's
            outputs, as in ImageNetV2.
        halves: seed that draws the halves; None draws none.
        **options: options of every source of rows, see `vlbench.data.gate.RowOptions`.
    """
    where = f"{root / test}/<class>/<image>"
    require_folder("image folder", "your own images (pass --images DIR)", root, where)
    begin(options)
    columns, notes, dropped = columns_of(options), list[str](), dict[str, int]()
    splits: Mapping[str, Callable[[], Rows]]
    if halves is not None and not (root / test).is_dir() and not (root / train).is_dir():
        classes = visible_folders(root)
        splits, dropped = _in_halves(root, classes, halves)
        notes = [f"data: half of each class is train and half is test, drawn with seed {halves}"]
    else:
        if not (root / test).is_dir():
            raise DataError(
                f"{root.name} has no folder '{test}' of test images, but {visible_folders(root)}; "
                + _way_out(test, train if halves is not None else "")
            )
        folders = {"train": train, "test": test} if (root / train).is_dir() else {"test": test}
        classes = visible_folders(root / next(iter(folders.values())))
        splits = {name: partial(_rows, root, folder, classes) for name, folder in folders.items()}
    own_columns(columns, ["image", "label"], root.name)
    order = OUTPUT_NUMBERS if class_numbers_are_outputs else ""
    data = data_of_rows(options, columns, splits, classes=classes, class_order=order)
    return replace(data, notes=[*data.notes, *notes], dropped={**data.dropped, **dropped})


def _way_out(test: str, train: str) -> str:
    """Return what to do without test images; `train` is empty if no halves are drawn."""
    if not train:
        return "for a folder per class, add `halves: 0` under data to split each class"
    return f"name the test images '{test}', or give the folder '{train}', to split each class"


def _in_halves(
    root: Path, classes: Sequence[str], seed: int
) -> tuple[dict[str, Callable[[], Rows]], dict[str, int]]:
    """Return half of each class's images for train and half for test; count the other files."""
    others = Counter[str]()
    forms = [normal_form(name) for name in classes]
    images: dict[str, list[str]] = {name: [] for name in forms}
    for name, folder in zip(forms, classes, strict=True):
        images[name] += _images(root, folder, others)
    others += files_beside(root)
    # Copies of an image are in one half, so that no test image is a train image.
    same = [same_images(Split({"image": file_images(root, names)})) for names in images.values()]
    pairs = zip(images.items(), same, strict=True)
    few = [
        f"{name} ({len(groups)}{' different' * (len(files) > len(groups))})"
        for (name, files), groups in pairs
        if len(groups) < FEWEST
    ]
    if few or not classes:
        problem = f"too few images of {', '.join(few)}" if few else "no folders of classes"
        raise DataError(f"{root.name} has {problem}; train and test need one image per class each")
    rng, halves = np.random.default_rng(seed), dict[str, list[tuple[str, int]]](train=[], test=[])
    for (name, files), groups in zip(images.items(), same, strict=True):
        drawn, label = np.array_split(rng.permutation(len(groups)), 2), forms.index(name)
        for split, half in zip(halves, drawn, strict=True):
            rows = sorted(i for image in half for i in groups[image])
            halves[split] += [(files[row], label) for row in rows]
    splits = {name: partial(_labelled, root, name, half) for name, half in halves.items()}
    return {**splits}, dropped_files(others, "images of a class")


def _rows(root: Path, folder: str, classes: Sequence[str]) -> Rows:
    """Return the images of a folder of class folders; count the other files by suffix.

    Raises DataError for a folder without classes, an unknown class and a class without images.
    """
    folders = {name: normal_form(name) for name in visible_folders(root / folder)}
    forms, others = [normal_form(name) for name in classes], Counter[str]()
    if not folders:
        raise DataError(f"'{folder}' has no class folders; put images at {folder}/<class>/<image>")
    unknown = [name for name in folders.values() if name not in forms]
    if unknown:
        raise DataError(
            f"'{folder}' has the class '{unknown[0]}', which the train folder does not have"
        )
    files = [(name, _images(root, f"{folder}/{name}", others)) for name in folders]
    others += files_beside(root / folder)
    empty = [name for name, images in files if not images]
    if empty:
        raise DataError(f"'{folder}/{empty[0]}' contains no image; add images or remove the folder")
    labelled = list[tuple[str, int]]()
    for name, images in files:
        label = forms.index(folders[name])
        labelled += [(image, label) for image in images]
    return _labelled(root, folder, labelled, dropped_files(others, "images of a class"))


def _labelled(
    root: Path, name: str, images: Sequence[tuple[str, int]], dropped: Mapping[str, int] = {}
) -> Rows:
    """Return the rows of images with the numbers of their classes."""
    files, labels = zip(*images, strict=True)
    return rows_of_files(root, name, {"image": files, "label": labels}, dropped=dropped)


def _images(root: Path, folder: str, others: Counter[str]) -> list[str]:
    """Return the images under a folder, relative to the root; count other files by suffix."""
    files, left_out = visible_files(root, folder)
    images = [name for name in files if name.lower().endswith(SUFFIXES)]
    others += left_out
    if len(images) < len(files):
        others += count_kinds(set(files).difference(images))
    return images
