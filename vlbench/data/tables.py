"""Rows as Arrow, of which values are made when asked for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from vlbench.data.records import Column
from vlbench.digests import digest


@dataclass(frozen=True)
class Table:
    """Rows on disk, and the digest of each column's content (of an image: of its pixels)."""

    rows: Any
    digests: Mapping[str, str]

    def values(self, column: str) -> list[Any]:
        """Return all values of a column."""
        values: list[Any] = self.rows.column(column).to_pylist()
        return values


@dataclass(frozen=True, eq=False)
class Stored(Sequence[Any]):
    """Values made of the columns of one row each time they are asked for, and not kept."""

    table: Table
    columns: tuple[str, ...]
    make: Callable[..., Any]

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.table.rows.num_rows)

    def __getitem__(self, i: Any) -> Any:
        """Return value i, or the list of values of a slice."""
        if isinstance(i, slice):
            return [self[row] for row in range(*i.indices(len(self)))]
        return self.make(*(self.table.rows.column(name)[i].as_py() for name in self.columns))


def in_memory(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> Table:
    """Return rows as a table in memory, a fraction of their size as Python objects."""
    batches: list[pa.Table] = []
    sums = {name: hashlib.sha256() for name in schema.names}
    left = iter(rows)
    while batch := list(islice(left, 500)):
        for name, sum_ in sums.items():
            sum_.update(json.dumps([row[name] for row in batch]).encode())
        batches.append(pa.Table.from_pylist(batch, schema))
    table = pa.concat_tables(batches) if batches else schema.empty_table()
    digests = {name: f"sha256:{sum_.hexdigest()}" for name, sum_ in sums.items()}
    return Table(table.combine_chunks(), digests)


def made(
    table: Table, made_of: Sequence[str], make: Callable[..., Any], kind: str = "value"
) -> Column:
    """Return a column whose values are made of some of a table's columns when asked for."""
    key = digest([kind, *(table.digests[name] for name in made_of)])
    return Column(key, kind, Stored(table, tuple(made_of), make), range(table.rows.num_rows))
