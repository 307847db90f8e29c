"""Drawn scenes as an Arrow file in the cache folder: written once, memory-mapped when read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from vlbench.data.tables import BATCH, ColumnDigests, Row
from vlbench.errors import DataError, OutputError
from vlbench.system.digests import bytes_digest, digest, file_digests
from vlbench.system.files import take_lock

ROWS = "rows.arrow"
DIGESTS = "digests.json"
# The digest of the file of rows; folders written by version 1.1.0 have none.
SEAL = "rows.sha256"

_TEXTS = pa.list_(pa.string())
_NUMBERS = pa.list_(pa.float32())
_ARC = {"relation": pa.string(), "head": pa.int32(), "dependent": pa.int32()}
_PHRASE = {
    "start": pa.int32(),
    "stop": pa.int32(),
    "boxes": pa.list_(pa.int32()),
}

# One row per image. Columns of captions (words, arcs, ...) have one list per caption.
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


def read_digests(folder: Path) -> dict[str, str] | None:
    """Return the digest of each column stored in a folder; None if nothing is stored."""
    file = folder / DIGESTS
    if not file.is_file():
        return None
    try:
        digests = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(folder, error) from error
    if not isinstance(digests, dict) or set(digests) != set(SCHEMA.names):
        raise damaged(folder, KeyError(DIGESTS))
    return digests


def open_rows(folder: Path) -> Any:
    """Return the rows stored in a folder as an Arrow table, memory-mapped. Raises DataError."""
    try:
        _require_unchanged(folder)
        with pa.memory_map(str(folder / ROWS)) as file:
            rows = pa.ipc.open_stream(file).read_all()
        # The cast raises for another schema; without validation Arrow would follow damaged offsets.
        rows = rows.cast(SCHEMA)
        rows.validate(full=True)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise damaged(folder, error) from error
    return rows


def _require_unchanged(folder: Path) -> None:
    """Raise ValueError if the rows in a folder are not those that were written."""
    seal = folder / SEAL
    if seal.is_file() and seal.read_bytes() != file_digests([folder / ROWS], "bytes")[0].encode():
        raise ValueError(ROWS)


def damaged(folder: Path, error: Exception) -> DataError:
    """Return the error for a stored folder that cannot be read."""
    # Without its path, because a result may quote the message.
    where = f"{folder.parent.name}/{folder.name} in the cache"
    kind = type(error).__name__
    return DataError(f"{where} cannot be read ({kind}); delete it and run again")


def write_once(folder: Path, rows: Callable[[], Iterable[tuple[Row, str]]]) -> dict[str, str]:
    """Store rows, each with the digest of its image, and return the digest of each column.

    A folder that is already stored is not changed. It appears complete or not at all; if there are
    several processes, one writes it and the others wait. Raises OutputError, naming the folder, if
    the disk is full or permissions forbid it.
    """
    # Before the lock: a cache shared between users may be read-only.
    if stored := read_digests(folder):
        return stored
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = take_lock(folder.parent / f".{folder.name}.lock")
        assert lock
        try:
            return read_digests(folder) or _write_folder(folder, rows())
        finally:
            lock.release()
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error


def _write_folder(folder: Path, rows: Iterable[tuple[Row, str]]) -> dict[str, str]:
    part = folder.with_name(f".part-{folder.name}")
    # Left by a process that was killed.
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    try:
        digests = _write_rows(part / ROWS, rows)
        (part / SEAL).write_text(bytes_digest(part / ROWS), "ascii")
        (part / DIGESTS).write_text(json.dumps(digests, indent=1), "utf-8")
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return digests


def _write_rows(file: Path, rows: Iterable[tuple[Row, str]]) -> dict[str, str]:
    """Write rows and return the digest of each column."""
    images: list[str] = []
    digests = ColumnDigests(name for name in SCHEMA.names if name != "image")
    remaining = iter(rows)
    with pa.ipc.new_stream(str(file), SCHEMA) as writer:
        while pairs := list(islice(remaining, BATCH)):
            images += [pixels for _, pixels in pairs]
            batch = [dict(row) for row, _ in pairs]
            digests.update(batch)
            writer.write_table(pa.Table.from_pylist(batch, SCHEMA))
    return digests.result() | {"image": digest(["images", *images])}
