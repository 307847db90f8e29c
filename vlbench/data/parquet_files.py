"""Parquet files of anybody's, read in memory of the order of what they hold.

A page of a hundred bytes may hold a gigabyte of equal values, and the footer may say less. So the
headers of the pages are read first (parquet.thrift, in Thrift's compact protocol), and not through
pyarrow, which ends the process for some broken footers when it is asked where the pages are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

# The bytes of memory that any file may take, and those for each byte of a larger one: nine million
# items of a thousand images, the most that a task writes, take 400.
FLOOR, RATIO = 64 << 20, 1_000

# Bytes of a decoded value, to which its levels add four; a text is decoded as a place in the list
# of those that differ.
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
LEVELS, PLACE = 4, 4

# Bytes of a value in Python, and of a page however little it holds.
OBJECT, PAGE = 64, 1_000

# Thrift's kinds of values.
BOOLEANS, NUMBERS, BINARY, LIST, STRUCT = (1, 2), (4, 5, 6), 8, 9, 12

# The fields that matter: of a footer, a group of rows, a column of it, what that says, and a page.
GROUPS, COLUMNS, META = 4, 1, 3
LENGTH, FIRST, DICTIONARY = 7, 9, 11
UNPACKED, PACKED, COUNT, PAGES = 2, 3, 1, (5, 7, 8)

# Bytes of a number, of a text, and of a footer, which takes a hundred times that in Python.
MOST_NUMBER, MOST_BINARY, MOST_FOOTER = 10, 1 << 20, 1 << 20


class _Page(NamedTuple):
    """The bytes of a page's values, and how many values it has."""

    unpacked: int
    entries: int


def read_parquet(file: IO[bytes], columns: Sequence[str] | None = None) -> pa.Table:
    """Return a table, or the named columns of it; texts are places in lists of those that differ.

    Raises ValueError, before anything is read, where it would take too much memory, and
    pa.ArrowException, OSError or ValueError for what is no parquet.
    """
    texts = require_modest(file, columns)
    # What is in memory need not be read through Python.
    source = pa.BufferReader(file.getbuffer()) if isinstance(file, BytesIO) else file
    # A board has hundreds of small tables: threads cost more than they save.
    return pq.ParquetFile(source, read_dictionary=texts).read(columns, use_threads=False)


def require_modest(file: IO[bytes], columns: Sequence[str] | None = None) -> list[str]:
    """Return the columns of texts. Raises as `read_parquet`, reading no value."""
    schema = pq.ParquetFile(file).schema
    leaves = [schema.column(i) for i in range(len(schema))]
    taken = 0
    try:
        for group in _footer(file)[GROUPS]:
            for column, chunk in zip(leaves, group[COLUMNS], strict=True):
                if columns is not None and column.path.split(".")[0] not in columns:
                    continue
                width = PLACE if _is_text(column) else WIDTHS.get(column.physical_type)
                for page in _pages(file, chunk[META]):
                    each = (width or column.length) + LEVELS
                    taken += page.unpacked + page.entries * each + PAGE
                    _require(taken, file)
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"no page of Parquet stands where its footer says ({error!r})") from error
    return [column.path for column in leaves if _is_text(column)]


def values(table: pa.Table, file: IO[bytes]) -> dict[str, list[Any]]:
    """Return the values of a file's table by column. Raises ValueError where they are too many."""
    _require(sum(_objects(part) for column in table.columns for part in column.chunks), file)
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _is_text(column: Any) -> bool:
    return bool(column.physical_type == "BYTE_ARRAY")


def _require(taken: int, file: IO[bytes]) -> None:
    size = file.seek(0, 2)
    if taken > max(FLOOR, RATIO * size):
        raise ValueError(
            f"its {size} bytes unpack to over {taken >> 20} MB, as no honest file's do"
        )


def _objects(array: Any) -> int:
    """Return the bytes that an array's values take in Python, at most."""
    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary).take(array.indices)
        return OBJECT * len(array) + (pc.sum(lengths).as_py() or 0)
    if pa.types.is_struct(array.type):
        return OBJECT * len(array) + sum(map(_objects, array.flatten()))
    if pa.types.is_nested(array.type):
        return OBJECT * len(array) + _objects(array.flatten())
    return OBJECT * len(array)


def _footer(file: IO[bytes]) -> dict[int, Any]:
    """Return the fields of a file's footer. Raises ValueError for a large one."""
    size = file.seek(-8, 2)
    length = int.from_bytes(file.read(4), "little")
    if length > MOST_FOOTER:
        raise ValueError(f"its footer has {length} bytes; at most {MOST_FOOTER} are read")
    file.seek(size - length)
    return _struct(file)


def _pages(file: IO[bytes], chunk: dict[int, Any]) -> Iterator[_Page]:
    """Yield the pages of a column of a group of rows."""
    place = chunk[FIRST]
    if 0 < chunk.get(DICTIONARY, 0) < place:
        place = chunk[DICTIONARY]
    end = place + chunk[LENGTH]
    while place < end:
        file.seek(place)
        fields = _struct(file)
        counts = [fields[kind][COUNT] for kind in PAGES if kind in fields]
        place = file.tell() + max(0, fields[PACKED])
        yield _Page(max(0, fields[UNPACKED]), sum(map(abs, counts)))


def _struct(file: IO[bytes]) -> dict[int, Any]:
    """Return the fields of a struct by their numbers."""
    fields, number = {}, 0
    while head := file.read(1)[0]:
        number = number + (head >> 4) if head >> 4 else _number(file)
        kind = head & 15
        fields[number] = _number(file) if kind in NUMBERS else _value(file, kind)
    return fields


def _value(file: IO[bytes], kind: int) -> Any:
    if kind in NUMBERS:
        return _number(file)
    if kind == STRUCT:
        return _struct(file)
    if kind == BINARY:
        return file.read(min(_varint(file), MOST_BINARY))
    if kind == LIST:
        head = file.read(1)[0]
        length = head >> 4 if head >> 4 < 15 else _varint(file)
        if head & 15 in BOOLEANS:  # which take no byte here, so that any number may be announced
            raise LookupError(head)
        return [_value(file, head & 15) for _ in range(length)]
    if kind in BOOLEANS:
        return kind
    raise LookupError(kind)


def _number(file: IO[bytes]) -> int:
    coded = _varint(file)
    return (coded >> 1) ^ -(coded & 1)


def _varint(file: IO[bytes]) -> int:
    number = shift = 0
    while shift < 7 * MOST_NUMBER:
        byte = file.read(1)[0]
        number |= (byte & 127) << shift
        if byte < 128:
            return number
        shift += 7
    raise LookupError(number)
