"""A user's own images with captions: `cat.jpg`, and `cat.txt` with a caption per line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from vlbench.data.coco_files import read_text
from vlbench.data.folders import count_kinds, visible_files
from vlbench.data.images import SUFFIXES, file_images
from vlbench.data.names import composed
from vlbench.data.pictures import pictures
from vlbench.data.presence import begin_reading
from vlbench.data.records import Data, Split, value_column
from vlbench.errors import DataAbsent, DataError, counted

TEXT = ".txt"


def captioned_folder(*, root: Path) -> Data:
    """Return the images of a folder and its subfolders with their captions, ordered by name.

    The captions of an image are the lines of the text file beside it that has its name but for the
    suffix; blank lines are none. `captions` has all of them, `caption` the first. All images are
    the test split. Images without captions, texts without an image, and other files are left out
    and counted; hidden files are no part of the folder. Raises DataAbsent without a folder, and
    DataError for two images, or two texts, of one name, and where no image has a caption.
    """
    if not root.is_dir():
        raise DataAbsent(
            "folder of captioned images", "your own images", f"{root}/<name>.jpg, <name>.txt"
        )
    begin_reading()
    files, cached = visible_files(root)
    images = _by_stem(name for name in files if name.lower().endswith(SUFFIXES))
    texts = _by_stem(name for name in files if name.lower().endswith(TEXT))
    captions = {stem: _captions(root, texts[stem]) for stem in images if stem in texts}
    captioned = {images[stem]: own for stem, own in captions.items() if own}
    if not captioned:
        raise DataError(
            f"{root.name} has no image with captions ({counted(len(images), 'image')}, "
            f"{counted(len(texts), 'text')}); write those of cat.jpg to cat.txt beside it, one per "
            "line"
        )
    columns = {
        "captions": value_column([*captioned.values()]),
        "caption": value_column([first for first, *_ in captioned.values()], "text"),
    }
    shown = pictures(file_images(root, [*captioned]), [*captioned], None)
    others = set(files) - {*images.values(), *texts.values()}
    dropped = {
        "images without captions": len(images) - len(captioned),
        "texts without an image": len(texts) - len(captions),
        **_by_kind(count_kinds(others) + cached),
    }
    return Data(
        splits={"test": Split({**shown, **columns})},
        dropped={what: count for what, count in dropped.items() if count},
    )


def _by_stem(names: Iterable[str]) -> dict[str, str]:
    """Return files by their names without suffix. Raises DataError, naming both, for two of one."""
    files: dict[str, str] = {}
    for name in names:
        # macOS may have unpacked one of both files, and so have spelled it another way.
        if (other := files.setdefault(composed(name.rpartition(".")[0]), name)) != name:
            raise DataError(f"{other} and {name} differ in their suffix alone; rename one of them")
    return files


def _captions(root: Path, name: str) -> list[str]:
    """Return the lines that are not blank."""
    lines = map(str.strip, read_text(root / name, name).split("\n"))
    return [line for line in lines if line]


def _by_kind(counts: Counter[str]) -> dict[str, int]:
    kinds = sorted(counts.items())
    return {f"files ({kind}) that are no images or captions": count for kind, count in kinds}
