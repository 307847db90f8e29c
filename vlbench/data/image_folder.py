"""A user's own images, one folder per class: `root/train/<class>/*` and `root/test/<class>/*`."""

import os
from collections.abc import Sequence
from pathlib import Path

from vlbench.data.images import SUFFIXES, file_images, labelled
from vlbench.data.records import Data, Split
from vlbench.errors import DataAbsent, DataError


def image_folder(*, root: Path, train: str = "train", test: str = "test") -> Data:
    """Return images labelled by the folder they lie in, ordered by class and name.

    Without a folder `train` there is only a test split. Classes are the sorted names of the
    folders of train, or of test where train is absent; test may lack some. Hidden files and files
    without an image suffix are ignored; folders inside a class folder belong to the class, and
    linked ones are followed.
    """
    if not root.is_dir():
        raise DataAbsent("image folder", "your own images", f"{root / test}/<class>/<image>")
    if not (root / test).is_dir():
        raise DataError(f"no folder '{test}' of test images; there are {_folders(root)}")
    folders = {"train": train, "test": test} if (root / train).is_dir() else {"test": test}
    classes = _folders(root / next(iter(folders.values())))
    splits = {name: _split(root, folder, classes) for name, folder in folders.items()}
    return Data(splits=splits, classes=classes)


def _split(root: Path, folder: str, classes: Sequence[str]) -> Split:
    """Return the images of a folder of class folders.

    Raises DataError for a folder without classes, an unknown class and a class without images.
    """
    own = _folders(root / folder)
    if not own:
        raise DataError(f"'{folder}' has no class folders; put images at {folder}/<class>/<image>")
    unknown = [name for name in own if name not in classes]
    if unknown:
        raise DataError(f"'{folder}' has the class '{unknown[0]}', which the train folder lacks")
    files = [(name, _images(root, f"{folder}/{name}")) for name in own]
    empty = [name for name, images in files if not images]
    if empty:
        raise DataError(f"'{folder}/{empty[0]}' holds no image; add some or remove the folder")
    names = [image for _, images in files for image in images]
    labels = [classes.index(name) for name, images in files for _ in images]
    return labelled(file_images(root, names), labels, classes=len(classes), where=folder)


def _folders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _images(root: Path, folder: str) -> list[str]:
    """Return the images under a folder and under folders linked there, relative to the root."""
    found = []
    for parent, folders, names in os.walk(root / folder, onerror=_refuse, followlinks=True):
        place = Path(parent)
        folders[:] = [name for name in folders if not name.startswith(".")]
        looped = [
            name for name in folders if place.resolve().is_relative_to((place / name).resolve())
        ]
        if looped:
            link = (place / looped[0]).relative_to(root).as_posix()
            raise DataError(f"'{link}' links to a folder that holds it; remove the link")
        found += [place / n for n in names if not n.startswith(".") and _is_image(n)]
    inside = sorted(path.relative_to(root / folder).as_posix() for path in found)
    return [f"{folder}/{name}" for name in inside]


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES


def _refuse(error: OSError) -> None:
    raise DataError(f"{Path(error.filename).name} cannot be read ({error.strerror})") from error
