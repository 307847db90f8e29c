"""Anybody's images in tar shards, in the layout of CLIP_benchmark and of webdataset.

`root/SPLIT/nshards.txt` has the number of shards `root/SPLIT/0.tar`, `1.tar` and so on, and
`root/classnames.txt` one class a line. Members of one key are one example: `s0000001.jpg` with its
class number in `s0000001.cls` and, where there are some, one caption a line in `s0000001.txt`.

The shards are read here and not by the builder of the library datasets: that takes the suffixes of
the first five examples for all, so that an image of another format is lost without a word, and it
writes all images once more. An uncompressed tar needs no copy: what is kept, and remembered, is
where each member begins, and images are read from there.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vlbench.data.corpora import WordTests, require_texts, with_class_words
from vlbench.data.described import Rows, described, said_in
from vlbench.data.packed import Packed, Wanted, packed_examples, read_part
from vlbench.data.records import Data, wanted
from vlbench.data.streams import streamed_images
from vlbench.data.texts import is_number, read_text
from vlbench.digests import file_digests
from vlbench.errors import DataAbsent, DataError

CLASSES, COUNT = "classnames.txt", "nshards.txt"

# What is remembered of a shard; another number for another `packed_examples`.
HOW = "examples of a tar shard, 1"


def images(
    *,
    root: Path,
    splits: Mapping[str, str],
    label: str = "cls",
    caption: str = "",
    regions: Path | None = None,
    texts: WordTests | None = None,
    wanted_splits: Sequence[str] = (),
) -> Data:
    """Return the images of tar shards, in the order of the shards and of their members.

    `splits` gives the folder of each split: `{train: train, test: test}`. `label` and `caption` are
    suffixes of members: class numbers, and texts with one caption a line. An empty name leaves them
    out. The key names an example. `regions`, `texts` and `wanted_splits` are as in
    `vlbench.data.table`.

    Raises DataAbsent where the shards are not there, and DataError, naming shard and key, for what
    is no right example.
    """
    for folder in splits.values():
        if not (root / folder).is_dir():
            what = f"the folder of tar shards {folder}"
            raise DataAbsent(what, "whoever packed them", str(root / folder / "0.tar"))
    require_texts(texts)
    classes = _class_names(root) if label else []
    suffixes = Wanted(label, caption)
    found = {}
    for name, folder in wanted(splits, wanted_splits).items():
        rows = _rows(root, folder, suffixes, len(classes))
        found[name] = described(rows, classes=len(classes), where=folder, regions=regions)
    return with_class_words(Data(splits=found, classes=classes), texts)


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
        """Return the bytes of image i, and its name. Raises DataError for a shard that is gone."""
        shard, start, size = self.places[i].tolist()
        where = f"{self.shards[shard]}: {self.keys[i]}"
        return read_part(self.root / self.shards[shard], start, size, where), where


def _rows(root: Path, folder: str, wanted: Wanted, classes: int) -> Rows:
    """Return what the shards of a split have for its images."""
    shards = _shards(root, folder)
    rows: dict[str, int] = {}
    places, digests = array("q"), list[str]()
    labels, captions = list[int](), list[list[str]]()
    for number, shard in enumerate(shards):
        for one in _examples(root, shard, wanted):
            if one.key in rows:
                other = shards[places[3 * rows[one.key]]]
                raise DataError(f"{shard}: the key {one.key} is in {other}, too")
            rows[one.key] = len(rows)
            if one.label is not None:
                labels.append(_checked(one.label, classes, f"{shard}: {one.key}"))
            if one.caption is not None:
                captions.append(one.caption.splitlines())
            places.extend((number, one.start, one.size))
            digests.append(one.digest)
    keys = list(rows)
    stored = _Images(root, shards, keys, np.array(places, np.int64).reshape(-1, 3))
    return Rows(
        streamed_images(stored, digests),
        labels if wanted.label else None,
        keys,
        said_in(
            {"caption": [captions]} if wanted.caption else {},
            lambda row: f"{shards[places[3 * row]]}: {keys[row]}",
        ),
    )


def _checked(label: int, classes: int, where: str) -> int:
    if label >= classes:
        raise DataError(f"{where} has the label {label}, not in 0..{classes - 1}")
    return label


def _shards(root: Path, folder: str) -> list[str]:
    """Return the shards of a folder, relative to the root. Raises DataError where one is absent."""
    named = f"{folder}/{COUNT}"
    if not (root / named).is_file():
        raise DataError(f"{named} is absent: it says how many shards there are")
    text = read_text(root / named, named).strip()
    if not is_number(text) or int(text) < 1:
        raise DataError(f"{named}: {text!r:.40} is no number of shards")
    files = [file.name for file in (root / folder).iterdir() if file.suffix == ".tar"]
    there = {name for name in files if not name.startswith(".")}
    names = [f"{number}.tar" for number in range(min(int(text), len(there) + 1))]
    lacking = next((name for name in names if name not in there), None)
    if lacking:
        raise DataError(f"{folder}/{lacking} is absent; {named} says {text} shards")
    if others := sorted(there.difference(names)):
        raise DataError(f"{folder}/{others[0]} is one more than {named} says ({text} shards)")
    return [f"{folder}/{name}" for name in names]


def _class_names(root: Path) -> list[str]:
    """Return the names of the classes. Raises DataAbsent or DataError."""
    if not (root / CLASSES).is_file():
        raise DataAbsent(
            f"{CLASSES}, one class a line", "whoever packed the shards", str(root / CLASSES)
        )
    names = [line.strip() for line in read_text(root / CLASSES).rstrip().split("\n")]
    if "" in names:
        raise DataError(f"{CLASSES}, line {names.index('') + 1}, is no name of a class")
    return names


def _examples(root: Path, shard: str, wanted: Wanted) -> Iterator[Packed]:
    """Yield the examples of a shard, which are remembered until it changes."""

    def found(path: Path) -> str:
        return json.dumps(packed_examples(path, shard, wanted))

    (known,) = file_digests([root / shard], json.dumps([HOW, *wanted]), found)
    return (Packed(*values) for values in json.loads(known))
