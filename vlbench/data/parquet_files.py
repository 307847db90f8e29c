"""Untrusted parquet files, read by pyarrow in memory proportional to their content.

A page of a hundred bytes may contain a gigabyte of equal values, so the numbers of rows and bytes
in the footer are checked first.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# The bytes of memory that any file may take, and the bytes per byte of a larger file. Nine million
# items of a thousand images, the most that a task writes, take 400 bytes per byte.
FLOOR, RATIO = 256 << 20, 1_000

# The most bytes of a decoded value, and of its levels; texts and bytes are decoded as indices into
# the list of distinct values.
WIDTH, LEVELS = 16, 4

# pyarrow's error if it cannot make such a list of texts in two of Parquet's encodings.
DELTAS = "DecodeArrow of DictAccumulator"
MOST_ROWS = 1 << 16
TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())

# Bytes of a Python object.
OBJECT = 64


def read_parquet(file: IO[bytes], columns: Sequence[str] | None = None) -> pa.Table:
    """Return a table, or its named columns; texts are indices into lists of distinct texts.

    Raises ValueError, before a value is read, if it would take too much memory, and
    pa.ArrowException, OSError or ValueError if the file is not parquet.
    """
    # Content in memory need not be read through Python.
    source = pa.BufferReader(file.getbuffer()) if isinstance(file, BytesIO) else file
    texts = require_modest(file, columns)
    # A board has hundreds of small tables, for which threads cost more than they save.
    try:
        return pq.ParquetFile(source, read_dictionary=texts).read(columns, use_threads=False)
    except OSError as error:
        if DELTAS not in str(error):
            raise
    return _read_in_batches(pq.ParquetFile(source), file, columns)


def _read_in_batches(
    source: pq.ParquetFile, file: IO[bytes], columns: Sequence[str] | None
) -> pa.Table:
    """Return a table whose texts are stored as differences, which expand when unpacked.

    Raises ValueError before it takes more memory than a file may take: no text is longer than the
    content of its pages.
    """
    groups = [source.metadata.row_group(i) for i in range(source.metadata.num_row_groups)]
    longest = max((abs(group.total_byte_size) for group in groups), default=0)
    rows = min(MOST_ROWS, max(1, _allowed(file) // max(1, longest)))
    batches, size = [], 0
    for batch in source.iter_batches(rows, columns=columns, use_threads=False):
        size += batch.nbytes
        _require(size, file)
        batches.append(batch)
    schema = batches[0].schema if batches else source.read(columns).schema
    return pa.Table.from_batches(batches, schema)


def require_modest(file: IO[bytes], columns: Sequence[str] | None = None) -> list[str]:
    """Return the columns of texts and bytes. Raises as `read_parquet`, reading no value.

    The metadata of the columns in a row group are not read: for some broken files, pyarrow would
    end the process.
    """
    metadata = pq.read_metadata(file)
    leaves = [metadata.schema.column(i) for i in range(len(metadata.schema))]
    width = sum(
        max(leaf.length, WIDTH) + LEVELS
        for leaf in leaves
        if columns is None or leaf.path.split(".")[0] in columns
    )
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    # Absolute values, so that a negative size does not offset another group's.
    _require(sum(abs(g.total_byte_size) + abs(g.num_rows) * width for g in groups), file)
    return [leaf.path for leaf in leaves if _is_text(leaf)]


def values(table: pa.Table, file: IO[bytes]) -> dict[str, list[Any]]:
    """Return the values of a file's table by column. Raises ValueError if they are too many."""
    _require(sum(_objects(part) for column in table.columns for part in column.chunks), file)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _is_text(leaf: Any) -> bool:
    is_number = leaf.logical_type.type == "DECIMAL"
    return bool(leaf.physical_type == "BYTE_ARRAY") and not is_number


def _require(size: int, file: IO[bytes]) -> None:
    if size > _allowed(file):
        raise ValueError(
            f"its {file.seek(0, 2)} bytes unpack to over {size >> 20} MB; the file is broken "
            "or malicious"
        )


def _allowed(file: IO[bytes]) -> int:
    return max(FLOOR, RATIO * file.seek(0, 2))


def _objects(array: Any) -> int:
    """Return the most bytes that an array's values take in Python."""
    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return OBJECT * len(array) + (pc.sum(lengths).as_py() or 0)
    if array.type in TEXTS:
        return OBJECT * len(array) + (pc.sum(pc.binary_length(array)).as_py() or 0)
    if pa.types.is_struct(array.type):
        return OBJECT * len(array) + sum(map(_objects, array.flatten()))
    if pa.types.is_map(array.type):
        return OBJECT * len(array) + _objects(array.keys) + _objects(array.items)
    if pa.types.is_nested(array.type):
        return OBJECT * len(array) + _objects(array.flatten())
    return OBJECT * len(array)
