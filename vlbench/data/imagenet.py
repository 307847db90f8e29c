"""ImageNet (ILSVRC 2012): validation images, and train images on request. arXiv:1409.0575."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from vlbench.data.coco_files import lines_of, read_text
from vlbench.data.images import SUFFIXES, file_images, labelled
from vlbench.data.presence import begin_reading, require_files
from vlbench.data.records import Data, Split, value_column
from vlbench.errors import DataAbsent, DataError

HOME = "image-net.org (ILSVRC 2012) or its Kaggle challenge 'ImageNet Object Localization'"
EXPECTED = {"train": 1_281_167, "test": 50_000}
SYNSETS = "LOC_synset_mapping.txt"
LABELS = ("LOC_val_solution.csv", "imagenet_2012_validation_synset_labels.txt")

# Folders of images under the root, in this order of preference: as given, or of archives.
FOLDERS = ("", "val", "images", "ILSVRC/Data/CLS-LOC/val")
TRAIN_FOLDERS = ("train", "ILSVRC/Data/CLS-LOC/train")


def imagenet(*, root: Path, train: bool = False) -> Data:
    """Return the validation images as split "test", with columns image, label and wnid.

    Classes are the synonyms of the 1,000 sorted wnids, joined as `tench, Tinca tinca`; two classes
    are `crane`. Images are in `root`, val/, images/ or Kaggle's folders: one folder per wnid,
    or names that begin with a wnid, or ILSVRC2012_val_*.JPEG with LOC_val_solution.csv or
    imagenet_2012_validation_synset_labels.txt (line i: the wnid of image i). Rows are ordered by
    class, then by name, for every layout.

    Args:
        root: folder with LOC_synset_mapping.txt and the images.
        train: whether to read the train images too, one folder per wnid: 1.28 million files, each
            read once for its digest.
    """
    names = {"test": _images(root, FOLDERS)}
    if not names["test"]:
        raise DataAbsent("ImageNet (validation images)", HOME, f"{root}/val/<wnid>/*.JPEG")
    if train:
        names["train"] = _images(root, TRAIN_FOLDERS)
        if not names["train"]:
            raise DataAbsent("ImageNet (train images)", HOME, f"{root}/train/<wnid>/*.JPEG")
    require_files(f"ImageNet's {SYNSETS}", HOME, root / SYNSETS)
    begin_reading()
    synsets = _synsets(root / SYNSETS)
    splits = {split: _split(root, files, synsets) for split, files in names.items()}
    expected = {split: EXPECTED[split] for split in splits}
    classes = list(synsets.values())
    return Data(splits=splits, classes=classes, expected=expected, class_order="imagenet")


def _images(root: Path, folders: Sequence[str]) -> list[str]:
    """Return the image files of the first folder and layout that contain any."""
    for place in map(root.joinpath, folders):
        wnids = [path for path in place.glob("n????????") if path.is_dir()]
        for parents in (wnids, [place] if place.is_dir() else []):
            inside = [f"{p.relative_to(root).as_posix()}/".removeprefix("./") for p in parents]
            names = [
                f"{folder}{name}"
                for folder, parent in zip(inside, parents, strict=True)
                for name in os.listdir(parent)  # noqa: PTH208 - a Path of each takes far longer
                if name[0] != "." and name.lower().endswith(SUFFIXES)
            ]
            if names:
                return names
    return []


def _split(root: Path, names: list[str], synsets: Mapping[str, str]) -> Split:
    wnids = _wnids(root, names)
    unknown = [name for name in names if wnids[name] not in synsets]
    if unknown:
        raise DataError(f"{unknown[0]}: wnid {wnids[unknown[0]]} is not in {SYNSETS}")
    names = sorted(names, key=lambda name: (wnids[name], name.rpartition("/")[2]))
    place = {wnid: i for i, wnid in enumerate(synsets)}
    labels = [place[wnids[name]] for name in names]
    split = labelled(file_images(root, names), labels, classes=len(place), where="ImageNet")
    return Split({**split.columns, "wnid": value_column([wnids[name] for name in names])})


def _synsets(path: Path) -> dict[str, str]:
    """Return the synonyms of each of the 1,000 wnids, sorted by wnid as in every classifier."""
    words = dict(re.findall(r"^(n\d{8})(?: :)? (.*\S)", read_text(path), re.MULTILINE))
    if len(words) != 1000:
        raise DataError(f"{path.name} has {len(words)} wnids, not 1,000; fetch it again")
    return dict(sorted(words.items()))


def _wnids(root: Path, names: list[str]) -> dict[str, str]:
    """Return the wnid of each image: from its folder, its name, or a list of labels."""
    matches = {name: re.search(r"(?:^|/)(n\d{8})[_/][^/]*$", name) for name in names}
    wnids = {name: match[1] for name, match in matches.items() if match}
    others = [name for name in names if name not in wnids]
    classes = _read_val_classes(root) if others else {}
    unknown = [name for name in others if PurePosixPath(name).stem not in classes]
    if unknown:
        raise DataError(f"{unknown[0]} has no wnid in its name, its folder or a list of labels")
    return wnids | {name: classes[PurePosixPath(name).stem] for name in others}


def _read_val_classes(root: Path) -> dict[str, str]:
    """Return the wnid of ILSVRC2012_val_00000001 and so on, from the first list found."""
    solution, labels = (root / name for name in LABELS)
    if solution.is_file():
        rows = r"^(ILSVRC2012_val_\d{8}),\W?(n\d{8})\b"
        return dict(re.findall(rows, read_text(solution), re.MULTILINE))
    if labels.is_file():
        lines = lines_of(read_text(labels))
        return {f"ILSVRC2012_val_{i:08d}": wnid.strip() for i, wnid in enumerate(lines, 1)}
    what = "the list of labels of ImageNet's validation images"
    raise DataAbsent(what, HOME, f"{root / LABELS[0]} (or {LABELS[1]})")
