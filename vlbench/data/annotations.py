"""What data sets say of the words of a caption."""

from typing import NamedTuple


class Arc(NamedTuple):
    """A Stanford dependency between two words of a caption; the root is no word's dependent."""

    relation: str
    head: int
    dependent: int


class Phrase(NamedTuple):
    """Words start..stop of a caption (stop excluded) and the boxes that they name, if any."""

    start: int
    stop: int
    boxes: tuple[int, ...]


class Named(NamedTuple):
    """A category and what names it at characters start..end (end excluded) of a caption.

    `word` is what a prompt names it by: what stands there, as written (COCO's `Men`), or the
    singular noun where the data know it (`pine` for `pines` in scenes).
    """

    category: str
    word: str
    start: int
    end: int
