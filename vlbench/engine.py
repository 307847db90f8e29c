"""The engine: passes data through models in batches, once, and keeps what came out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from vlbench.data.records import Column
from vlbench.digests import digest, source_digest
from vlbench.passes import Apply, Compute, Encode, Place
from vlbench.results import Result
from vlbench.store import Store

# Rows that are computed and stored together: what a killed run loses at most.
SHARD = 256

Module = TypeVar("Module", bound=torch.nn.Module)


class Progress(Protocol):
    """Hears how far a run is."""

    def begin(self, model: str, task: str) -> None:
        """Hear that a model starts on a task."""
        ...

    def start(self, what: str, total: int) -> None:
        """Hear that a pass over `total` rows starts."""
        ...

    def advance(self, rows: int) -> None:
        """Hear that rows are done."""
        ...

    def done(self, result: Result) -> None:
        """Hear how a task ended."""
        ...


class Silence:
    """Hears and says nothing."""

    def begin(self, model: str, task: str) -> None:
        """Ignore."""

    def start(self, what: str, total: int) -> None:
        """Ignore."""

    def advance(self, rows: int) -> None:
        """Ignore."""

    def done(self, result: Result) -> None:
        """Ignore."""


class Engine:
    """Devices, batches and the store, so that probes need not know of them.

    A column is cut into shards and a shard into batches at fixed positions of the stored column,
    whatever the store already has: what is computed does not depend on what was.
    """

    def __init__(
        self,
        place: Place,
        *,
        store: Store | None = None,
        identities: Mapping[int, str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Take what `id(adapter)` is known as: models without an identity are never stored."""
        self._place = place
        self._store = store
        self._identities = identities or {}
        self._progress = progress or Silence()

    @classmethod
    def for_tests(cls) -> Engine:
        """Return an engine on the CPU that stores nothing."""
        return cls(Place(torch.device("cpu")))

    @property
    def device(self) -> torch.device:
        """Where adapters live and probes compute."""
        return self._place.device

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes."""
        return True

    def features(self, encode: Callable[[Any], Tensor], column: Column) -> Tensor:
        """Return float32 [N, D], on the CPU: an adapter's bound method over a column.

        Images pass through the adapter's `preprocess` first. Raises ValueError for an output of
        another shape and for NaN or infinite values, with the row.
        """
        compute = Encode(encode, column, self._place)
        identity = self._identities.get(id(compute.adapter))
        key = digest([identity, compute.name, column.key]) if identity else None
        out: Tensor | None = None
        self._progress.start(f"{compute.name} on {column.kind}s", len(column))
        for places, values in self._shards(key, column.rows, compute):
            block = torch.stack(values)
            if out is None:
                out = torch.empty((len(column), block.shape[1]))
            out[places] = block
        return torch.empty((0, 0)) if out is None else out

    def map(
        self,
        function: Callable[..., Sequence[Any]],
        *columns: Column,
        key: Mapping[str, Any] | None = None,
    ) -> list[Any]:
        """Return one output an example, in order: `function` gets a list of values a column.

        Outputs are stored only under a key of plain values, which must name all that they depend
        on besides the columns and the function's own file (a model stands for its identity).
        """
        rows = range(len(columns[0]))
        known = key and {name: self._identities.get(id(v), v) for name, v in key.items()}
        parts = [known, [[c.key, list(c.rows)] for c in columns]]
        stored = digest([*parts, source_digest(function)]) if known else None
        outputs: list[Any] = [None] * len(rows)
        self._progress.start(getattr(function, "__name__", "map"), len(rows))
        for places, values in self._shards(stored, rows, Apply(function, columns)):
            for place, value in zip(places, values, strict=True):
                outputs[place] = value
        return outputs

    def once(self, key: Mapping[str, Any], build: Callable[[], Any]) -> Any:
        """Return what `build` made for this key, now or in an earlier run of the same code.

        The key names all that the value depends on, the file that defines `build` apart; a model in
        it stands for its identity. The value is made of tensors and plain values.
        """
        known = {name: self._identities.get(id(value), value) for name, value in key.items()}
        stored = digest([known, source_digest(build)])
        found = self._store.load(stored, "once") if self._store else None
        if found is not None:
            return found["value"]
        value = build()
        if self._store:
            self._store.save(stored, "once", {"value": value})
        return value

    def copy(self, module: Module) -> Module:
        """Return a copy that a probe may train, so that the live adapter never changes."""
        return copy.deepcopy(module)

    def _shards(
        self, key: str | None, rows: Sequence[int], compute: Compute
    ) -> Iterator[tuple[list[int], list[Any]]]:
        """Yield, shard by shard, places in `rows` and their outputs."""
        places: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(row // SHARD, []).append(place)
        for number in sorted(places):
            wanted = [rows[place] for place in places[number]]
            outputs = self._shard(key, f"{number:06d}", wanted, compute)
            yield places[number], [outputs[row] for row in wanted]

    def _shard(
        self, key: str | None, number: str, wanted: Sequence[int], compute: Compute
    ) -> dict[int, Any]:
        """Return the output of each wanted row of one shard, computing what the store lacks."""
        saved = self._store.load(key, number) if self._store and key else None
        outputs = dict(zip(saved["rows"], saved["values"], strict=True)) if saved else {}
        missing = sorted(set(wanted) - set(outputs))
        self._progress.advance(len(wanted) - len(missing))
        for rows, values in compute(_batches(missing, self._place.batch_size)):
            outputs.update(zip(rows, values, strict=True))
            self._progress.advance(len(rows))
        if missing and self._store and key:
            ordered = sorted(outputs)
            content = {"rows": ordered, "values": _pack([outputs[row] for row in ordered])}
            self._store.save(key, number, content)
        return outputs


def _batches(rows: Sequence[int], size: int) -> list[list[int]]:
    """Cut rows into batches at multiples of `size` within a shard."""
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(row % SHARD // size, []).append(row)
    return list(groups.values())


def _pack(values: list[Any]) -> Any:
    """Return tensors of one shape as one tensor, anything else as it is."""
    alike = all(isinstance(v, Tensor) and v.shape == values[0].shape for v in values)
    return torch.stack(values) if alike else values
