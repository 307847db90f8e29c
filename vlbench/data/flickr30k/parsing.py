"""Parsers for the files of Flickr30k Entities: sentences with marked phrases, and boxes as XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree as ET

from vlbench.data.texts import is_number
from vlbench.errors import DataError

# `[/EN#197/people/other A man]`: the chain, its types, the words.
PHRASE = re.compile(r"\[/EN#(\d+)((?:/[a-z]+)+) ([^\[\]]+)\]")
SIDES = ("xmin", "ymin", "xmax", "ymax")


class Mention(NamedTuple):
    """Words start..stop of a caption that belong to a chain; chain 0 is `notvisual`."""

    start: int
    stop: int
    chain: int
    types: list[str]


class Caption(NamedTuple):
    """The words of a caption, and its phrases."""

    words: list[str]
    mentions: list[Mention]


class Annotation(NamedTuple):
    """The file and (W, H) of an image, its boxes (xyxy pixels), and the box indices of each chain.

    Boxes are as written: pixels count from 1.
    """

    image: str
    size: tuple[int, int]
    boxes: list[list[int]]
    chains: dict[int, list[int]]


def parse_sentences(text: str, name: str) -> list[Caption]:
    """Return the captions of a file, one per line. Raises DataError with the file and the line."""
    lines = text.removesuffix("\n").split("\n")
    return [_caption(line, f"{name}, line {i}") for i, line in enumerate(lines, 1)]


def parse_annotation(content: bytes, name: str) -> Annotation:
    """Return the annotation in an XML file. Raises DataError, naming the file.

    A chain that is only a scene, or that has no box, has an empty list. A box may belong to several
    chains.
    """
    try:
        root = ET.fromstring(content)  # noqa: S314 - expat itself refuses exponential expansion
    except (ET.ParseError, ValueError, LookupError) as error:
        raise DataError(f"{name} is not a complete XML file ({error}); fetch it again") from error
    image = (root.findtext("filename") or "").strip()
    size = _number(root, "size/width", name), _number(root, "size/height", name)
    boxes: list[list[int]] = []
    chains: dict[int, list[int]] = {}
    for thing in root.iterfind("object"):
        named = [chains.setdefault(_whole(part.text, name), []) for part in thing.iterfind("name")]
        corners = thing.find("bndbox")
        if corners is None:
            continue
        box = [_number(corners, side, name) for side in SIDES]
        if not (0 <= box[0] < box[2] <= size[0] and 0 <= box[1] < box[3] <= size[1]):
            raise DataError(f"{name}: box {box} has no area or leaves the image of {size}")
        for chain in named:
            chain.append(len(boxes))
        boxes.append(box)
    return Annotation(image, size, boxes, chains)


def _caption(line: str, where: str) -> Caption:
    words: list[str] = []
    mentions: list[Mention] = []
    for text, chain, types, phrase in _parts(line):
        if "[" in text or "]" in text:
            raise DataError(f"{where}: the markup of a phrase does not close: {text.strip()}")
        words += text.split()
        start = len(words)
        words += phrase.split()
        if chain:
            number = _whole(chain, f"{where}: a phrase's chain")
            mentions.append(Mention(start, len(words), number, types.split("/")[1:]))
    if not words:
        raise DataError(f"{where}: a caption without words")
    return Caption(words, mentions)


def _parts(line: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the text before each phrase, its chain, types and words; last the text after all."""
    pieces = PHRASE.split(line)
    for i in range(0, len(pieces) - 1, 4):
        yield pieces[i], pieces[i + 1], pieces[i + 2], pieces[i + 3]
    yield pieces[-1], "", "", ""


def _number(element: ET.Element, path: str, name: str) -> int:
    return _whole(element.findtext(path), f"{name}: {path}")


def _whole(text: str | None, where: str) -> int:
    """Return the integer that a text spells."""
    if text is None or not is_number(text.strip()):
        raise DataError(f"{where} is not a number: {text!r:.40}")
    return int(text)
