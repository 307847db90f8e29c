"""Examples packed in a tar shard: the members of one key are an image and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from vlbench.data.images import MOST_PIXELS
from vlbench.data.streams import encoded_digest
from vlbench.data.tars import Member, members
from vlbench.data.texts import is_number
from vlbench.errors import DataError

IMAGES = ("jpg", "jpeg", "png", "webp")

# Bytes of a class number, of captions, and of an image: as many as the largest takes decoded.
MOST_NUMBER, MOST_TEXT, MOST_IMAGE = 64, 1 << 20, 3 * MOST_PIXELS


class Wanted(NamedTuple):
    """The suffixes of class numbers and of captions; empty: none are read."""

    label: str
    caption: str


class Packed(NamedTuple):
    """One example, with its image's place in the shard; what is not wanted is None."""

    key: str
    start: int
    size: int
    digest: str
    label: int | None
    caption: str | None


def packed_examples(path: Path, shard: str, wanted: Wanted) -> list[Packed]:
    """Return the examples of a shard, in the order of their first members.

    Keys that have nothing of an example are left out. Raises DataError, naming `shard` and key, for
    a key without exactly one image, without what is wanted, or with a member that cannot be read.
    """
    keys: dict[str, dict[str, Member]] = {}
    for member in members(path, shard):
        own = keys.setdefault(member.key, {})
        if member.suffix in own:
            raise DataError(f"{shard}: {member.key}.{member.suffix} stands twice")
        own[member.suffix] = member
    parts = {*IMAGES, *wanted}
    return [_packed(path, shard, own, wanted) for own in keys.values() if parts & own.keys()]


def read_part(path: Path, start: int, size: int, where: str) -> bytes:
    """Return so many bytes of a file. Raises DataError, with `where`, if it is gone or shorter."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(size)
    except OSError as error:
        raise DataError(f"{where} cannot be read ({error.strerror})") from error
    if len(content) < size:
        raise DataError(f"{where} cannot be read: the shard has become shorter")
    return content


def _packed(path: Path, shard: str, own: Mapping[str, Member], wanted: Wanted) -> Packed:
    """Return the example of the members of one key, by suffix."""
    found = [own[suffix] for suffix in own if suffix in IMAGES]
    where = f"{shard}: {next(iter(own.values())).key}"
    if len(found) != 1:
        which = " and ".join(one.suffix for one in found) or f"no {', '.join(IMAGES)}"
        raise DataError(f"{where} has {len(found)} images ({which}); wanted is one")
    (image,) = found
    digest = encoded_digest(_content(path, image, where, MOST_IMAGE), where)
    label = _label(path, own, wanted.label, where) if wanted.label else None
    caption = _text(path, own, wanted.caption, where, MOST_TEXT) if wanted.caption else None
    return Packed(image.key, image.start, image.size, digest, label, caption)


def _label(path: Path, own: Mapping[str, Member], suffix: str, where: str) -> int:
    text = _text(path, own, suffix, where, MOST_NUMBER).strip()
    if not is_number(text):
        raise DataError(f"{where}.{suffix} holds {text!r:.40}, no class number")
    return int(text)


def _text(path: Path, own: Mapping[str, Member], suffix: str, where: str, most: int) -> str:
    named = f"{where}.{suffix}"
    if suffix not in own:
        raise DataError(f"{where} has no .{suffix}")
    try:
        return _content(path, own[suffix], named, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{named} is no UTF-8: byte {error.start}") from error


def _content(path: Path, member: Member, where: str, most: int) -> bytes:
    if member.size > most:
        raise DataError(f"{where} holds {member.size} bytes; at most {most} are read")
    return read_part(path, member.start, member.size, where)
