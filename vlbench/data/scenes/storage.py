"""Scenes drawn once and kept as Arrow in the cache folder, memory-mapped when read."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from datasets import Dataset, Features
from datasets.arrow_writer import ArrowWriter

from vlbench.data.tables import Table
from vlbench.digests import digest
from vlbench.errors import OutputError

ROWS = "rows.arrow"
DIGESTS = "digests.json"

_TEXTS = pa.list_(pa.string())
_NUMBERS = pa.list_(pa.float32())
_ARC = {"relation": pa.string(), "head": pa.int32(), "dependent": pa.int32()}
_PHRASE = {
    "start": pa.int32(),
    "stop": pa.int32(),
    "boxes": pa.list_(pa.int32()),
}

# What a row holds; of captions, lists of five (of words, arcs, ...).
SCHEMA = pa.schema(
    {
        "image": pa.binary(),
        "label": pa.int32(),
        "noun": pa.int32(),
        "background": pa.string(),
        "boxes": pa.list_(_NUMBERS),
        **dict.fromkeys(("categories", "nouns", "colours", "sizes", "textures", "facings"), _TEXTS),
        "angles": pa.list_(pa.float64()),
        **dict.fromkeys(("captions", "questions", "answers"), _TEXTS),
        **dict.fromkeys(("words", "tags"), pa.list_(_TEXTS)),
        "arcs": pa.list_(pa.list_(pa.struct(_ARC))),
        "phrases": pa.list_(pa.list_(pa.struct(_PHRASE))),
        **dict.fromkeys(("proposal_boxes", "proposal_vectors"), pa.list_(_NUMBERS)),
        "proposal_scores": _NUMBERS,
        "proposal_labels": _TEXTS,
    }
)

Row = Mapping[str, Any]


def kept(folder: Path, rows: Callable[[], Iterable[tuple[Row, str]]]) -> Table:
    """Return the table in a folder, made first of `rows` (with each image's digest) if absent.

    The folder appears whole or not at all, and of two runs that make it one is kept. Raises
    OutputError, naming the folder, where the disk or its rights do not allow it.
    """
    if not (folder / DIGESTS).is_file():
        try:
            _make(folder, rows())
        except OSError as error:
            raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    digests = json.loads((folder / DIGESTS).read_text("utf-8"))
    return Table(Dataset.from_file(str(folder / ROWS)).data, digests)


def _make(folder: Path, rows: Iterable[tuple[Row, str]]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
    try:
        digests = _write(part / ROWS, rows)
        (part / DIGESTS).write_text(json.dumps(digests, indent=1), "utf-8")
        _move(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _move(part: Path, folder: Path) -> None:
    try:
        # As readable as any folder of a cache, which a temporary one is not.
        part.chmod(0o755)
        part.rename(folder)
    except OSError:
        # Another run that was faster made the same.
        if not (folder / DIGESTS).is_file():
            raise


def _write(file: Path, rows: Iterable[tuple[Row, str]]) -> dict[str, str]:
    """Write rows and return the digest of each column."""
    images: list[str] = []
    sums = {name: hashlib.sha256() for name in SCHEMA.names if name != "image"}
    with ArrowWriter(path=str(file), features=Features.from_arrow_schema(SCHEMA)) as writer:
        left = iter(rows)
        while batch := list(islice(left, 500)):
            images += [pixels for _, pixels in batch]
            for name, sum_ in sums.items():
                sum_.update(json.dumps([row[name] for row, _ in batch]).encode())
            writer.write_table(pa.Table.from_pylist([dict(r) for r, _ in batch], SCHEMA))
        writer.finalize()
    known = {name: f"sha256:{sum_.hexdigest()}" for name, sum_ in sums.items()}
    return known | {"image": digest(["images", *images])}
