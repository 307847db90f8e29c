"""Shards of a pass: read if they are stored, computed if no other run computes them."""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from vlbench.engine.store import Store, StoredValue, copy_views, version_of
from vlbench.errors import OutputError

if TYPE_CHECKING:  # it imports SHARD
    from vlbench.engine.passes import Compute

# Rows that are computed and stored together: the most that a killed run loses.
SHARD = 256

# Seconds between two checks whether another run has stored a shard, and seconds without a stored
# shard after which the shards of other runs are computed here too.
PAUSE = 0.2
PATIENCE = 600.0

# Exchanges of shards per pass; more if one exchange would exceed MOST_ROWS rows per process. All
# processes wait for the slowest.
EXCHANGES, MOST_ROWS = 16, 1024

Outputs = dict[int, Any]


class PassParts(NamedTuple):
    """The store of a pass's shards, the rows per shard, and the computation of outputs."""

    store: Store | None
    key: str
    rows: int
    compute: Compute
    batch_size: int
    advance: Callable[[int], None]

    def stored(self, number: int) -> Outputs:
        """Return the stored outputs of a shard, by row."""
        return stored_outputs(self.store, self.key, number) if self.store else {}

    def lock(self, number: int) -> Callable[[], None] | None:
        """Lock a shard; return its unlocking, or None if another run holds the lock."""
        return self.store.lock(self.key, f"{number:06d}") if self.store else lambda: None

    def save(self, number: int, outputs: Outputs) -> None:
        """Store the outputs of a shard."""
        if self.store:
            rows = sorted(outputs)
            values = pack([outputs[row] for row in rows])
            content = {"rows": torch.tensor(rows), "values": values}
            self.store.save(self.key, f"{number:06d}", content)


def stored_outputs(store: Store, key: str, number: int) -> Outputs:
    """Return the stored outputs of a shard, by row; empty if its file has another content."""
    saved = store.load(key, f"{number:06d}")
    try:
        return dict(zip(torch.as_tensor(saved["rows"]).tolist(), saved["values"], strict=True))
    except (KeyError, TypeError, ValueError):
        return {}


class StoredRows:
    """Features float32 [N, D] that stay in the store: indexing reads rows from files.

    Files are read, not mapped: pages of a map count as the process's memory.
    """

    def __init__(self, store: Store, key: str, rows: Sequence[int]) -> None:
        """Take stored rows. Raises OutputError for a shard that is missing."""
        self._store, self._key = store, key
        self._rows = np.asarray(rows, np.int64)
        self._files: dict[int, StoredValue] = {}
        self._width = 0
        for number in np.unique(self._rows // SHARD).tolist():
            self._files[number] = self._locate(number)

    @property
    def shape(self) -> torch.Size:
        """(N, D)."""
        return torch.Size((len(self._rows), self._width))

    def __len__(self) -> int:
        """Return N."""
        return len(self._rows)

    def __getitem__(self, places: Tensor | slice) -> Tensor:
        """Return the rows at some places, like a tensor's indexing."""
        rows = self._rows[places if isinstance(places, slice) else places.numpy()]
        out = np.empty((len(rows), self._width), np.float32)
        order = np.argsort(rows, kind="stable")
        cuts = np.flatnonzero(np.diff(rows[order] // SHARD)) + 1
        for part in np.split(order, cuts) if len(rows) else ():
            self._read(rows, part, out)
        return torch.from_numpy(out)

    def _read(
        self, rows: np.ndarray[Any, Any], part: np.ndarray[Any, Any], out: np.ndarray[Any, Any]
    ) -> None:
        """Read the rows of one shard into their places."""
        number = int(rows[part[0]]) // SHARD
        located = self._files[number]
        with located.file.open("rb", buffering=0) as opened:
            if version_of(os.fstat(opened.fileno())) == located.version:
                places = np.searchsorted(located.value, rows[part])
                for i, place in zip(part.tolist(), places.tolist(), strict=True):
                    opened.seek(located.start + place * out[i].nbytes)
                    opened.readinto(out[i].data.cast("B"))
                return
        # Another run has added rows to this shard.
        self._files[number] = self._locate(number)
        self._read(rows, part, out)

    def _locate(self, number: int) -> StoredValue:
        located = self._store.locate(self._key, f"{number:06d}", "values")
        if located is None:
            raise OutputError(
                f"{self._store.root} lacks features that this run wrote; run it again"
            )
        rows, values = (located.value[name] for name in ("rows", "values"))
        self._width = values.shape[1]
        return located._replace(value=torch.as_tensor(rows).numpy())


# Features [N, D]: in memory, or in the store.
Features: TypeAlias = Tensor | StoredRows


def places_by_shard(rows: Sequence[int], shard: int = SHARD) -> dict[int, list[int]]:
    """Return the places in `rows` of each shard's rows, by ascending shard number."""
    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        places.setdefault(row // shard, []).append(place)
    return dict(sorted(places.items()))


def each_shard(parts: PassParts, shards: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, Any]]:
    """Yield the number of each shard, as soon as it is ready, and the outputs of its wanted rows.

    Shards that other runs have locked come last; a run that ends releases its locks. If no shard
    becomes ready for `PATIENCE` seconds, locked shards are computed here too.
    """
    left, waited = dict(shards), 0.0
    while left:
        before = len(left)
        for number, outputs in _ready(parts, dict(left), alone=waited > PATIENCE):
            yield number, pack([outputs[row] for row in left.pop(number)])
        if left and not waited:
            logging.getLogger(__name__).info(
                "waiting for another run that computes the same features"
            )
        waited = PAUSE if len(left) < before else waited + PAUSE
        time.sleep(PAUSE if left else 0)


def _ready(
    parts: PassParts, shards: Mapping[int, Sequence[int]], *, alone: bool
) -> Iterator[tuple[int, Outputs]]:
    """Yield stored shards, then computed shards; `alone` computes locked shards too."""
    lacking = {}
    for number, rows in shards.items():
        outputs = parts.stored(number)
        if outputs.keys() >= set(rows):
            parts.advance(len(rows))
            yield number, outputs
        else:
            lacking[number] = rows
    work = _Work(parts, lacking, alone=alone)
    try:
        # One stream for all shards, so that loader workers start once and prefetch.
        for rows, values in parts.compute(work) if lacking else ():
            parts.advance(len(rows))
            yield from work.put(rows, values)
        yield from work.stored
    finally:
        work.unlock()


class _Open(NamedTuple):
    """A shard being computed: outputs so far, rows that are missing, and its unlocking."""

    outputs: Outputs
    missing: set[int]
    unlock: Callable[[], None]


class _Work:
    """Batches of the rows of shards; a shard is locked when its first row is requested.

    `stored` are shards that another run has stored in the meantime.
    """

    def __init__(
        self, parts: PassParts, shards: Mapping[int, Sequence[int]], *, alone: bool
    ) -> None:
        self.stored: list[tuple[int, Outputs]] = []
        self._parts = parts
        self._wanted = shards
        self._alone = alone
        self._open: dict[int, _Open] = {}

    def __len__(self) -> int:
        """Return the most batches that there can be."""
        return sum(math.ceil(len(rows) / self._parts.batch_size) for rows in self._wanted.values())

    def __iter__(self) -> Iterator[list[int]]:
        """Yield batches of the missing rows of shards that no other run has locked."""
        across = self._parts.compute.spans_shards
        return batches(self._missing(), self._parts.batch_size, across=across)

    def _missing(self) -> Iterator[list[int]]:
        for number, rows in self._wanted.items():
            unlock = self._parts.lock(number)
            if unlock is None and not self._alone:
                continue
            # Read again: another run may have stored the shard before it unlocked it.
            outputs = self._parts.stored(number)
            missing = set(rows) - outputs.keys()
            self._parts.advance(len(set(rows) & outputs.keys()))
            opened = _Open(outputs, missing, unlock or (lambda: None))
            if missing:
                self._open[number] = opened
                yield sorted(missing)
            else:
                opened.unlock()
                self.stored.append((number, outputs))

    def put(self, rows: Sequence[int], values: Sequence[Any]) -> Iterator[tuple[int, Outputs]]:
        """Add the outputs of a batch; yield each shard, stored, of which these were the last."""
        for row, value in zip(rows, values, strict=True):
            number = row // self._parts.rows
            shard = self._open[number]
            shard.outputs[row] = value
            shard.missing.discard(row)
            if not shard.missing:
                self._parts.save(number, shard.outputs)
                self._open.pop(number).unlock()
                yield number, shard.outputs

    def unlock(self) -> None:
        """Unlock the shards that were not finished."""
        for shard in self._open.values():
            shard.unlock()


def shards_together(of_each: float, rows: int) -> int:
    """Return how many shards of `rows` rows each process computes between two exchanges.

    `of_each` is the number of shards per process.
    """
    return max(1, min(math.ceil(of_each / EXCHANGES), MOST_ROWS // rows))


def batches(
    shards: Iterable[Sequence[int]], size: int, *, across: bool = False
) -> Iterator[list[int]]:
    """Yield the rows of shards in batches of `size` or fewer: within each, or across shards."""
    for rows in map(iter, [chain.from_iterable(shards)] if across else shards):
        while batch := list(islice(rows, size)):
            yield batch


def pack(values: list[Any]) -> Any:
    """Return tensors of one shape as one tensor, other values as a list of copies."""
    if all(isinstance(v, Tensor) and v.shape == values[0].shape for v in values):
        return torch.stack(values)
    return [copy_views(value) for value in values]
