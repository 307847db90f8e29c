"""Annotations of the words of a caption: dependencies, phrases and named categories."""

from typing import NamedTuple


class Arc(NamedTuple):
    """A Stanford dependency between two words of a caption; the root is no word's dependent."""

    relation: str
    head: int
    dependent: int


class Phrase(NamedTuple):
    """Words start..stop of a caption (stop excluded) and the indices of the boxes they name."""

    start: int
    stop: int
    boxes: tuple[int, ...]


class Named(NamedTuple):
    """A category and the characters start..end (end excluded) of a caption that name it.

    `word` is its fine-grained class, a noun in the singular: `man` for `Men` in COCO, `pine` for
    `pines` in scenes. The caption has its own form between the characters.
    """

    category: str
    word: str
    start: int
    end: int
