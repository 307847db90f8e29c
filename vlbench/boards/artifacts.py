"""Reads a row's artifacts after checking their SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load

from vlbench.data.parquet_files import read_parquet, values
from vlbench.errors import DataError
from vlbench.metrics.items import IMAGE, SCHEMA, STATISTICS
from vlbench.results import ITEM_COLUMNS, ITEMS, Result
from vlbench.system import files

# A normal run keeps the existing row, even if its files are gone or have changed.
AGAIN = "run the task again with --overwrite"


def read_table(
    output: Path, row: Result, name: str, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of a table that a board's row keeps.

    Raises DataError if the table is absent, outside the boards' folder, not the file that was
    written with the row, or not a table with these columns.
    """
    table, content = _table(output, row, name, columns)
    try:
        columns_read = values(table, content)
    except ValueError as error:
        raise _no_table(row, name, error) from error
    return [
        dict(zip(columns_read, cells, strict=True))
        for cells in zip(*columns_read.values(), strict=True)
    ]


def read_items(output: Path, row: Result) -> pa.Table:
    """Return the items that a board's row keeps, in the types of `vlbench.metrics.items.SCHEMA`.

    Items of a corpus score also have `statistics`, a list of float64. Items whose digest covers
    more than an image may have `image`, the digest of the image. Raises DataError as `read_table`
    does, and for more items than the row's `n` and draws allow, for other types, and for credit
    that is not finite.
    """
    table, _ = _table(output, row, ITEMS, ITEM_COLUMNS, most=_most_items(row))
    file = row.artifacts[ITEMS]["file"]
    optional = [field for field in (STATISTICS, IMAGE) if field.name in table.column_names]
    fields = [*SCHEMA, *optional]
    try:
        items = table.select([field.name for field in fields]).cast(pa.schema(fields))
    except (pa.ArrowException, ValueError) as error:
        raise DataError(f"{file} is not a table of items: {error}; {AGAIN}") from error
    credit = items["credit"]
    if credit.null_count or not pc.all(pc.is_finite(credit), min_count=0).as_py():
        raise DataError(f"{file} contains credit that is not finite; {AGAIN}")
    return items


def read_tensor(output: Path, row: Result, name: str) -> NDArray[Any]:
    """Return the tensor that a board's row keeps. Raises DataError as `read_table` does."""
    try:
        return np.asarray(load(read_bytes(output, row, name))["data"])
    except (SafetensorError, KeyError) as error:
        raise DataError(f"{row.artifacts[name]['file']} is not a tensor; {AGAIN}") from error


def _most_items(row: Result) -> int:
    """Return the most items that a row can have: its largest count times all scores' draws."""
    each = max([*row.counts.values(), *(score.n for score in row.scores)], default=0)
    return each * sum(max(1, len(score.draws)) for score in row.scores)


def _table(
    output: Path, row: Result, name: str, columns: Sequence[str], most: int = 0
) -> tuple[pa.Table, BytesIO]:
    """Return a table that a row keeps, of at most `most` rows (0: any number), and its file."""
    content = BytesIO(read_bytes(output, row, name))
    try:
        rows = pq.read_metadata(content).num_rows
        table = read_parquet(content) if not most or rows <= most else None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _no_table(row, name, error) from error
    if table is None:
        raise _no_table(row, name, f"it has {rows:,} rows; its row's n allows at most {most:,}")
    absent = set(columns) - set(table.column_names)
    if absent:
        raise DataError(f"{row.artifacts[name]['file']} has no column {', '.join(sorted(absent))}")
    return table, content


def _no_table(row: Result, name: str, error: object) -> DataError:
    return DataError(f"{row.artifacts[name]['file']} is not a table: {error}; {AGAIN}")


def read_bytes(output: Path, row: Result, name: str) -> bytes:
    """Return the file of a row's artifact. Raises DataError as `read_table` does."""
    if name not in row.artifacts:
        raise DataError(f"its row has no {name}")
    file = row.artifacts[name]["file"]
    place = (output / file).resolve()
    if not place.is_relative_to(output.resolve()):
        raise DataError(f"{file} is a link out of the boards' folder")
    if not place.is_file():
        raise DataError(f"{file} is missing; {AGAIN}")
    try:
        content = files.read_bytes(place, files.MOST_ARTIFACT)
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror})") from error
    if row.artifacts[name]["sha256"] != "sha256:" + hashlib.sha256(content).hexdigest():
        raise DataError(f"{file} is not the file that was written with its row; {AGAIN}")
    return content
