"""A user's images in tar shards, in the layout of CLIP_benchmark and of webdataset.

`root/SPLIT/nshards.txt` contains the number of shards `root/SPLIT/0.tar`, `1.tar` and so on, and
`root/classnames.txt` one class per line. Members of one key are one example: `s0000001.jpg` with
its class number in `s0000001.cls` and any captions in `s0000001.txt`, one per line.

The shards are not read by the builder of the library datasets. It applies the suffixes of the first
five examples to all, so it silently loses images of other formats, and it writes a copy of all
images. An uncompressed tar needs no copy: only the positions of its members are stored, and images
are read from there.
"""

from __future__ import annotations

import json
import tarfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple, Unpack

import numpy as np

from vlbench.data.coco_files import is_number, lines_of, read_text
from vlbench.data.formats.archives import CHUNK, DAMAGED
from vlbench.data.gate import TEXTS, Columns, RowOptions, Rows, begin, columns_of, data_of_rows
from vlbench.data.hub_sets import encoded_digest, streamed_images
from vlbench.data.images import MOST_PIXELS, SUFFIXES
from vlbench.data.presence import require_files, require_folder
from vlbench.data.records import Column, Data
from vlbench.errors import DataError
from vlbench.system.digests import file_digests

# The most bytes of a header with its long names; a file may declare any number.
MOST_HEADER = 1 << 20
IMAGES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES)
# The most bytes of a class number, of texts, and of an image (the size of the largest one decoded).
MOST_NUMBER, MOST_TEXT, MOST_IMAGE = 64, 1 << 20, 3 * MOST_PIXELS
CLASSES, COUNT = "classnames.txt", "nshards.txt"
# The note on keys that are left out.
NO_EXAMPLE = "keys of shards without an image or another needed file"
# The name of a shard's stored examples; change the number if `read_shard` changes.
HOW = "examples of a tar shard, 4"
# The columns of a shard besides the suffixes of its texts.
IMAGE, KEY = "image", "__key__"


class Member(NamedTuple):
    """A file in a tar: its path up to the first dot of its name, the rest, and its bytes.

    `suffix` is empty for a name without a dot.
    """

    key: str
    suffix: str
    start: int
    size: int


class _Headers:
    """A file for reading headers, with a limit on the bytes of one read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.seek, self.tell = file, file.seek, file.tell

    def read(self, size: int) -> bytes:
        """Return bytes of a header. Raises tarfile.ReadError if it declares too many."""
        if not 0 <= size <= MOST_HEADER:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._file.read(size)


def members(path: Path, name: str) -> Iterator[Member]:
    """Yield the files in a tar, in order, except hidden files.

    Raises DataError, with the names of tar and member, for a member that is not a file (a link, for
    example), has no plain relative path, or ends outside the tar; and for a damaged tar.
    """
    last = "its beginning"
    try:
        with path.open("rb") as file:
            # tarfile reads only headers: data are skipped by seeking.
            with tarfile.open(fileobj=_Headers(file), mode="r:") as archive:  # type: ignore[call-overload]
                while (info := archive.next()) is not None:
                    # Otherwise tarfile keeps all members.
                    archive.members.clear()
                    last = repr(info.name)
                    if not info.isdir():
                        yield from _member(info, path.stat().st_size, name)
            _require_end(file, archive.offset)
    except (tarfile.TarError, *DAMAGED) as error:
        # Without the path in an OSError, because a result may quote the message.
        why = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        message = f"{name} is damaged after {last:.200}, or is not an uncompressed tar ({why:.200})"
        raise DataError(message) from error


def _member(info: tarfile.TarInfo, size: int, name: str) -> Iterator[Member]:
    """Yield a member that is a file and not hidden. Raises DataError."""
    where, path = f"{name}: {info.name!r:.200}", PurePosixPath(info.name)
    if not info.isreg() or info.issparse():
        raise DataError(f"{where} is not a plain file; pack files, not links")
    if not info.name.isprintable() or path.is_absolute() or ".." in path.parts:
        raise DataError(f"{where} is not a plain relative path")
    if info.size < 0 or info.offset_data + info.size > size:
        raise DataError(f"{where} declares {info.size} bytes, more than the tar contains")
    stem, _, suffix = path.name.partition(".")
    # CLIP_benchmark writes two dots before the suffix of a file that it copies.
    suffix = suffix.lower().lstrip(".")
    if stem:
        key = (path.parent / stem).as_posix()
        yield Member(key, suffix, info.offset_data, info.size)


def _require_end(file: BinaryIO, start: int) -> None:
    """Raise ValueError if a tar has no valid end.

    tarfile takes a broken header for the end.
    """
    file.seek(start)
    if len(rest := file.read(tarfile.BLOCKSIZE)) < tarfile.BLOCKSIZE:
        raise ValueError("it is cut off")
    while rest:
        if rest.strip(b"\0"):
            raise ValueError("the next block is not a header")
        rest = file.read(CHUNK)


class Packed(NamedTuple):
    """One example: its image's position in the shard, and its texts by suffix."""

    key: str
    start: int
    size: int
    digest: str
    texts: Mapping[str, str]


class Shard(NamedTuple):
    """The examples of a shard, ordered by their first members, and the number of other keys."""

    examples: Sequence[Packed]
    left_out: int


def read_shard(path: Path, shard: str, suffixes: Mapping[str, int]) -> Shard:
    """Return the content of a shard; `suffixes` are texts' suffixes with their most bytes.

    Keys without any part of an example are left out and counted. Raises DataError, naming `shard`
    and key, for a key without exactly one image or without a requested text, for an unreadable
    member, and for an image with another dot in its name, because a key ends at the first dot.
    """
    keys: dict[str, dict[str, Member]] = {}
    for member in members(path, shard):
        files = keys.setdefault(member.key, {})
        if member.suffix in files:
            raise DataError(f"{shard}: {member.key}.{member.suffix} occurs twice")
        files[member.suffix] = member
    if not keys:
        raise DataError(f"{shard} contains no file; pack it again, or leave it out of {COUNT}")
    parts = {*IMAGES, *suffixes}
    left_out = [files for files in keys.values() if not parts & files.keys()]
    for file in (member for files in left_out for member in files.values()):
        if file.suffix.rpartition(".")[2] in IMAGES:
            why = f"a key ends at the first dot, so the suffix here is '{file.suffix}'"
            raise DataError(f"{shard}: {file.key}.{file.suffix}: {why}; pack it without other dots")
    examples = [_pack(path, shard, own, suffixes) for own in keys.values() if parts & own.keys()]
    return Shard(examples, len(left_out))


def read_part(path: Path, start: int, size: int, where: str) -> bytes:
    """Return `size` bytes of a file. Raises DataError, with `where`, if it is gone or shorter."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(size)
    except OSError as error:
        raise DataError(f"{where} cannot be read ({error.strerror})") from error
    if len(content) < size:
        raise DataError(f"{where} cannot be read: the shard has become shorter")
    return content


def _pack(path: Path, shard: str, files: Mapping[str, Member], limits: Mapping[str, int]) -> Packed:
    """Return the example of the members of one key, by suffix."""
    images = [files[suffix] for suffix in files if suffix in IMAGES]
    where = f"{shard}: {next(iter(files.values())).key}"
    if len(images) != 1:
        which = " and ".join(image.suffix for image in images) or f"no {', '.join(IMAGES)}"
        raise DataError(f"{where} has {len(images)} images ({which}); it needs one")
    (image,) = images
    digest = encoded_digest(_content(path, image, where, MOST_IMAGE), where)
    texts = {suffix: _text(path, files, suffix, where, most) for suffix, most in limits.items()}
    return Packed(image.key, image.start, image.size, digest, texts)


def _text(path: Path, files: Mapping[str, Member], suffix: str, where: str, most: int) -> str:
    name = f"{where}.{suffix}"
    if suffix not in files:
        raise DataError(f"{where} has no .{suffix}")
    try:
        return _content(path, files[suffix], name, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name} is not UTF-8: byte {error.start}") from error


def _content(path: Path, member: Member, where: str, most: int) -> bytes:
    if member.size > most:
        raise DataError(f"{where} contains {member.size} bytes; at most {most} are read")
    return read_part(path, member.start, member.size, where)


def images(*, root: Path, splits: Mapping[str, str], **options: Unpack[RowOptions]) -> Data:
    """Return the images of tar shards, in the order of the shards and of their members.

    Columns are the suffixes of members, by default `label: cls`: a class number, or texts, one per
    line. Members of one key are a row, and the key is its `item`.

    Raises DataAbsent if the shards are missing, and DataError, naming shard and key, for an invalid
    example.

    Args:
        root: folder of the splits' folders, with classnames.txt for labels.
        splits: folder in `root` of each split: `{train: train, test: test}`.
        **options: options of every source of rows, see `vlbench.data.gate.RowOptions`.
    """
    for folder in splits.values():
        what, place = f"the folder of tar shards {folder}", root / folder
        require_folder(what, "the people who packed them", place, place / "0.tar")
    begin(options)
    columns = columns_of(options, label="cls", item=KEY)
    classes = _class_names(root) if "label" in columns else None
    rows = {name: partial(_rows, root, folder, columns) for name, folder in splits.items()}
    return data_of_rows(options, columns, rows, classes=classes, listed_in=CLASSES)


@dataclass(frozen=True, eq=False)
class _Images(Sequence[Any]):
    """The encoded images of shards, each with its shard and key, read on each access."""

    root: Path
    shards: Sequence[str]
    keys: Sequence[str]
    # The number of the shard, the first byte and the number of bytes, [N, 3].
    places: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.keys)

    def __getitem__(self, i: Any) -> Any:
        """Return the bytes of image i, and its name. Raises DataError for a missing shard."""
        shard, start, size = self.places[i].tolist()
        where = f"{self.shards[shard]}: {self.keys[i]}"
        return read_part(self.root / self.shards[shard], start, size, where), where


def _rows(root: Path, folder: str, columns: Columns) -> Rows:
    """Return the rows of the shards of a split."""
    shards = _shards(root, folder)
    # If a suffix has two kinds, the first kind determines how it is read: label, texts, then names.
    kinds = {name: kind for kind, names in reversed([*columns.items()]) for name in names}
    suffixes = {
        name: MOST_NUMBER if kind == "label" else MOST_TEXT
        for name, kind in kinds.items()
        if name not in {IMAGE, KEY}
    }
    rows: dict[str, int] = {}
    places, digests, texts = array("q"), list[str](), list[Mapping[str, str]]()
    left_out = 0
    for number, shard in enumerate(shards):
        content = _remembered(root, shard, suffixes)
        left_out += content.left_out
        for example in content.examples:
            if example.key in rows:
                other = shards[places[3 * rows[example.key]]]
                raise DataError(f"{shard}: the key {example.key} is also in {other}")
            rows[example.key] = len(rows)
            texts.append(example.texts)
            places.extend((number, example.start, example.size))
            digests.append(example.digest)
    if not rows:
        raise DataError(f"{folder}: no shard contains an image ({', '.join(IMAGES)})")
    keys = list(rows)
    stored = _Images(root, shards, keys, np.array(places, np.int64).reshape(-1, 3))
    where = partial(_name_row, shards, places, keys)
    cells: dict[str, list[Any]] = {
        suffix: [
            _value(parts[suffix], kinds[suffix], f"{where(row)}.{suffix}")
            for row, parts in enumerate(texts)
        ]
        for suffix in suffixes
    }

    def images_in(column: str) -> Column:
        if column != IMAGE:
            raise DataError(f"{folder}: a key has one image, the column {IMAGE}, and no {column}")
        return streamed_images(stored, digests)

    dropped = {NO_EXAMPLE: left_out} if left_out else {}
    return Rows(folder, {KEY: keys, **cells}, images_in, where, dropped)


def _name_row(shards: Sequence[str], places: Sequence[int], keys: Sequence[str], row: int) -> str:
    return f"{shards[places[3 * row]]}: {keys[row]}"


def _value(text: str, kind: str, where: str) -> Any:
    """Return a class number, the lines of texts, or a single text."""
    if kind in TEXTS:
        return lines_of(text)
    if kind != "label":
        return text.rstrip("\r\n")
    if not is_number(text.strip()):
        raise DataError(f"{where} contains {text!r:.40}, not a class number")
    return int(text)


def _shards(root: Path, folder: str) -> list[str]:
    """Return the shards of a folder, relative to the root. Raises DataError if one is missing."""
    count = f"{folder}/{COUNT}"
    if not (root / count).is_file():
        raise DataError(f"{count} is missing; it gives the number of shards")
    text = read_text(root / count, count).strip()
    if not is_number(text) or int(text) < 1:
        raise DataError(f"{count}: {text!r:.40} is not a number of shards")
    files = [file.name for file in (root / folder).iterdir() if file.suffix == ".tar"]
    tars = {name for name in files if not name.startswith(".")}
    names = [f"{number}.tar" for number in range(min(int(text), len(tars) + 1))]
    lacking = next((name for name in names if name not in tars), None)
    if lacking:
        raise DataError(f"{folder}/{lacking} is missing; {count} declares {text} shards")
    if others := sorted(tars.difference(names)):
        raise DataError(f"{folder}/{others[0]} is beyond the {text} shards that {count} declares")
    return [f"{folder}/{name}" for name in names]


def _class_names(root: Path) -> list[str]:
    """Return the names of the classes. Raises DataAbsent or DataError."""
    require_files(
        f"{CLASSES}, one class per line", "the people who packed the shards", root / CLASSES
    )
    names = lines_of(read_text(root / CLASSES).rstrip("\n"))
    for number, name in enumerate(names or [""], 1):
        if not name.strip():
            raise DataError(f"{CLASSES}, line {number}, is not the name of a class")
    return names


def _remembered(root: Path, shard: str, suffixes: Mapping[str, int]) -> Shard:
    """Return the content of a shard, which is stored until the shard changes."""

    def content(path: Path) -> str:
        return json.dumps(read_shard(path, shard, suffixes))

    (text,) = file_digests([root / shard], json.dumps([HOW, *suffixes.items()]), content)
    examples, left_out = json.loads(text)
    return Shard([Packed(*values) for values in examples], left_out)
