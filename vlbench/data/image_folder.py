"""A user's own images, one folder per class: `root/train/<class>/*` and `root/test/<class>/*`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vlbench.data.folders import count_kinds, files_beside, visible_files, visible_folders
from vlbench.data.images import SUFFIXES, file_images, labelled
from vlbench.data.names import normal_form, number_classes
from vlbench.data.presence import begin_reading
from vlbench.data.records import OUTPUT_NUMBERS, Data, Split, same_images, wanted
from vlbench.errors import DataAbsent, DataError


def image_folder(
    *,
    root: Path,
    train: str = "train",
    test: str = "test",
    class_numbers_are_outputs: bool = False,
    halves: int | None = None,
    wanted_splits: Sequence[str] = (),
) -> Data:
    """Return images labelled by the folder they lie in, ordered by class and name.

    Without a folder `train` there is only a test split. Classes are the sorted names of the
    folders of train, or of test where train is absent; test may lack some. Hidden files are no part
    of it; caches of file managers, other files without a suffix of images that Pillow opens, or
    outside the folders of classes, are left out and counted. Folders inside a class folder belong
    to the class, and linked ones are followed. Where `class_numbers_are_outputs`, the folders are
    named by the numbers of a classifier's outputs, as ImageNetV2's are. Of `wanted_splits` alone,
    if there are some, files are read.

    With `halves`, a seed, a root that has neither folder may hold the folders of classes itself: of
    each class a half that the seed draws is train, and the other, smaller by one image where their
    number is odd, is test; copies of an image are in one half. Raises DataError with the classes
    that have fewer than two different images.
    """
    if not root.is_dir():
        raise DataAbsent("image folder", "your own images", f"{root / test}/<class>/<image>")
    begin_reading()
    if halves is not None and not (root / test).is_dir() and not (root / train).is_dir():
        return _in_halves(root, halves)
    if not (root / test).is_dir():
        raise DataError(f"no folder '{test}' of test images; there are {visible_folders(root)}")
    folders = {"train": train, "test": test} if (root / train).is_dir() else {"test": test}
    classes = number_classes(visible_folders(root / next(iter(folders.values())))).names
    read = wanted(folders, wanted_splits)
    others: Counter[str] = Counter()
    splits = {name: _split(root, folder, classes, others) for name, folder in read.items()}
    order = OUTPUT_NUMBERS if class_numbers_are_outputs else ""
    return Data(splits=splits, classes=classes, class_order=order, dropped=_dropped(others))


def _dropped(others: Counter[str]) -> dict[str, int]:
    kinds = sorted(others.items())
    return {f"files ({kind}) that are no images of a class": n for kind, n in kinds}


def _in_halves(root: Path, seed: int) -> Data:
    """Return the images of folders of classes, a half of each class for train and one for test."""
    others = Counter[str]()
    classes, numbers = number_classes(own_folders := visible_folders(root))
    images: list[list[str]] = [[] for _ in classes]
    for number, folder in zip(numbers, own_folders, strict=True):
        images[number] += _images(root, folder, others)
    others += files_beside(root)
    # Copies of an image are in one half, so that no test image is a train image.
    same = [same_images(Split({"image": file_images(root, own)})) for own in images]
    few = [f"{c} ({len(own)})" for c, own in zip(classes, same, strict=True) if len(own) < 2]
    if few or not classes:
        problem = f"too few images of {', '.join(few)}" if few else "no folders of classes"
        raise DataError(f"{root.name} has {problem}; train and test need one image of a class each")
    rng, halves = np.random.default_rng(seed), []
    for own in same:
        drawn = np.array_split(rng.permutation(len(own)), 2)
        first, second = ([i for image in half for i in own[image]] for half in drawn)
        halves.append({"train": sorted(first), "test": sorted(second)})
    splits = {}
    for split in ("train", "test"):
        pairs = zip(images, halves, strict=True)
        parts = [[own[i] for i in half[split]] for own, half in pairs]
        names = [name for part in parts for name in part]
        labels = [label for label, part in enumerate(parts) for _ in part]
        files = file_images(root, names)
        splits[split] = labelled(files, labels, classes=len(classes), where=split)
    note = f"data: of each class a half is train and a half is test, drawn with seed {seed}"
    return Data(splits=splits, classes=classes, dropped=_dropped(others), notes=[note])


def _split(root: Path, folder: str, classes: Sequence[str], others: Counter[str]) -> Split:
    """Return the images of a folder of class folders; count the other files by suffix.

    Raises DataError for a folder without classes, an unknown class and a class without images.
    """
    own = {name: normal_form(name) for name in visible_folders(root / folder)}
    if not own:
        raise DataError(f"'{folder}' has no class folders; put images at {folder}/<class>/<image>")
    unknown = [name for name in own.values() if name not in classes]
    if unknown:
        raise DataError(f"'{folder}' has the class '{unknown[0]}', which the train folder lacks")
    files = [(name, _images(root, f"{folder}/{name}", others)) for name in own]
    others += files_beside(root / folder)
    empty = [name for name, images in files if not images]
    if empty:
        raise DataError(f"'{folder}/{empty[0]}' holds no image; add some or remove the folder")
    names = [image for _, images in files for image in images]
    labels = [classes.index(own[name]) for name, images in files for _ in images]
    return labelled(file_images(root, names), labels, classes=len(classes), where=folder)


def _images(root: Path, folder: str, others: Counter[str]) -> list[str]:
    """Return the images under a folder, relative to the root; count other files by suffix."""
    files, cached = visible_files(root, folder)
    images = [name for name in files if name.lower().endswith(SUFFIXES)]
    others += cached
    if len(images) < len(files):
        others += count_kinds(set(files).difference(images))
    return images
