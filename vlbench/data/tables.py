"""Rows in Arrow, and columns whose values are computed from them on access."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from vlbench.data.records import Column
from vlbench.system.digests import digest

# Rows that are converted to Arrow at once. The digests depend on it: see `ColumnDigests`.
BATCH = 500

Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Table:
    """Rows that `open_rows` returns as an Arrow table: called once, when a value is first read.

    `digests` has the digest of each column's content (for images, of their pixels).
    """

    open_rows: Callable[[], Any]
    length: int
    digests: Mapping[str, str]

    @cached_property
    def rows(self) -> Any:
        """Return the Arrow table."""
        return self.open_rows()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the opened rows: another process opens them again."""
        return {name: value for name, value in vars(self).items() if name != "rows"}

    def values(self, column: str) -> list[Any]:
        """Return all values of a column."""
        values: list[Any] = self.rows.column(column).to_pylist()
        return values


@dataclass(frozen=True, eq=False)
class RowValues(Sequence[Any]):
    """One value per row, computed from some of its columns on each access and not kept."""

    table: Table
    columns: tuple[str, ...]
    make: Callable[..., Any]

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.table.length

    def __getitem__(self, i: Any) -> Any:
        """Return value i, or the list of values of a slice."""
        if isinstance(i, slice):
            return [self[row] for row in range(*i.indices(len(self)))]
        return self.make(*(self.table.rows.column(name)[i].as_py() for name in self.columns))


class ColumnDigests:
    """Digests of the contents of columns, updated one batch of rows at a time.

    Other batch sizes give other digests.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._sums = {name: hashlib.sha256() for name in names}

    def update(self, batch: Sequence[Row]) -> None:
        """Add the rows of a batch."""
        for name, column in self._sums.items():
            column.update(json.dumps([row[name] for row in batch]).encode())

    def result(self) -> dict[str, str]:
        """Return the digest of each column, `sha256:...`."""
        return {name: f"sha256:{column.hexdigest()}" for name, column in self._sums.items()}


def in_memory(rows: Iterable[Row], schema: pa.Schema) -> Table:
    """Return rows as a table in memory, a fraction of their size as Python objects."""
    batches: list[pa.Table] = []
    digests = ColumnDigests(schema.names)
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        digests.update(batch)
        batches.append(pa.Table.from_pylist(batch, schema))
    table = pa.concat_tables(batches) if batches else schema.empty_table()
    return Table(partial(_same, table.combine_chunks()), table.num_rows, digests.result())


def column_from(
    table: Table, names: Sequence[str], make: Callable[..., Any], kind: str = "value"
) -> Column:
    """Return a column whose values `make` computes from these columns of a table."""
    key = digest([kind, *(table.digests[name] for name in names)])
    return Column(key, kind, RowValues(table, tuple(names), make), range(table.length))


def box_tensor(boxes: Sequence[Sequence[float]]) -> Tensor:
    """Return the boxes of a row, float32 [N, 4]; N may be 0."""
    return torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)


def _same(table: pa.Table) -> pa.Table:
    return table
