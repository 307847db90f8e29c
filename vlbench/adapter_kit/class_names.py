"""Names of a classifier's outputs, which `classes` gives as a file or as ImageNet's order."""

from __future__ import annotations

from pathlib import Path

from vlbench.data.coco_files import lines_of
from vlbench.errors import CannotDo, WeightsError
from vlbench.system.files import MOST_CONFIG, read_text

# The 1,000 classes in the order of their sorted wnids, the order of nearly all classifiers.
IMAGENET = "imagenet"


def class_order_of(classes: str, count: int, *, published: bool) -> str:
    """Return "imagenet" if the outputs are ImageNet's 1,000 classes in the usual order; else "".

    They are if `classes` is "imagenet", or if it is empty for published weights. Raises
    WeightsError if `classes` is "imagenet" and `count` is neither 1,000 nor 0 (no head).
    """
    if classes == IMAGENET and count not in {0, 1000}:
        raise WeightsError(
            f"classes={IMAGENET} means 1,000 classes, but the weights have {count:,}"
        )
    is_imagenet = classes == IMAGENET or (published and not classes)
    return IMAGENET if is_imagenet and count == 1000 else ""


def read_class_names(classes: str, count: int) -> list[str]:
    """Return the names in a file, one per line, in the order of the outputs.

    Raises WeightsError unless each output has a name, and CannotDo if `classes` is empty.
    """
    if not classes:
        raise CannotDo(f"the names of this checkpoint's {count} classes are not known")
    file = Path(classes).expanduser()
    try:
        lines = lines_of(read_text(file, MOST_CONFIG))
    except (OSError, UnicodeDecodeError) as error:
        raise WeightsError(f"classes: {file} cannot be read ({error})") from error
    names = [line.strip() for line in lines if line.strip()]
    if len(names) != count:
        raise WeightsError(f"{file} names {len(names):,} classes, but the weights have {count:,}")
    return names
