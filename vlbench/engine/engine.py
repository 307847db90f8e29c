"""The engine: passes data through models in batches, once, and stores the outputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from vlbench.capabilities import PROBABILITY, Cut, Intervenable, Picture, RegionEncoder
from vlbench.code.identity import code_digest
from vlbench.data.records import Column, Data, Split
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.pass_checks import REPEATED, Repeating, require_pairwise
from vlbench.engine.passes import Apply, Compute, Encode
from vlbench.engine.processes import Processes
from vlbench.engine.progress import NoProgress, Progress
from vlbench.engine.shards import (
    PATIENCE,
    SHARD,
    Features,
    PassParts,
    StoredRows,
    batches,
    each_shard,
    pack,
    places_by_shard,
    shards_together,
)
from vlbench.engine.store import Store
from vlbench.engine.training import Place, Sharing, Training, train
from vlbench.errors import CannotDo, DataError
from vlbench.system.digests import digest
from vlbench.system.threads import all_threads, threads_for

# The identity of each live adapter, under its `id`; empty for an adapter without an identity.
Identities = Mapping[int, str]

# With fewer shards per process than this, the batches of a shard are shared by several processes.
FEW = 4

# `large_features` leaves features of more bytes in the store.
IN_MEMORY = 1 << 30


def features_key(identity: str, compute: Any, name: str, column: Column) -> str | None:
    """Return the key of the features of a stored column by a model's method."""
    return _key([identity, *_codes(compute, column)], [name, column.key])


def map_key(
    functions: Sequence[Any], columns: Sequence[Column], key: Mapping[str, Any], digests: Identities
) -> str | None:
    """Return the key of the outputs of functions for the selected rows of columns."""
    values, models = _parts(key, digests)
    selected = [[column.key, list(column.rows)] for column in columns]
    return _key([*models, *_codes(*functions, *columns)], [values, selected])


def once_key(build: Any, key: Mapping[str, Any], digests: Identities) -> str | None:
    """Return the key of a value that is built once."""
    values, models = _parts(key, digests)
    return _key([*models, *_codes(build)], values)


def _key(required: Sequence[str | None], parts: Any) -> str | None:
    return digest([list(required), parts]) if all(required) else None


def _parts(key: Mapping[str, Any], digests: Identities) -> tuple[dict[str, Any], list[str]]:
    """Return a key with each model replaced by its identity, and the identities."""
    models = {name: digests[id(value)] for name, value in key.items() if id(value) in digests}
    return {**key, **models}, list(models.values())


def _codes(*things: Any) -> Iterator[str | None]:
    """Yield the digests of the code of functions, and of the code behind columns."""
    for thing in things:
        if isinstance(thing, Column):
            yield from _codes(thing.stored, *getattr(thing.stored, "__dict__", {}).values())
        else:
            yield code_digest(thing)


Module = TypeVar("Module", bound=torch.nn.Module)
Item = TypeVar("Item")
Found = TypeVar("Found")
Method = TypeVar("Method", bound=Callable[..., Any])
Model = TypeVar("Model", bound=Intervenable)


class KnownModel(NamedTuple):
    """A live model's name, and its view of the data if it reads another kind of regions.

    `untrained` loads a draw of the same network with random weights, by number from 1, and returns
    it with its identity.
    """

    name: str
    data: Data | None = None
    untrained: Callable[[int], tuple[Any, str]] | None = None


class Engine:
    """Runs models on columns, so that probes do not handle devices, batches or the store.

    A column is cut into shards, which are computed and stored together. Each batch of features has
    the same number of rows, and a row's features do not depend on the other rows of its batch: so
    one process and several compute the same bytes, whatever the store already has. Only texts that
    a model pads to the longest of a batch, and images of several sizes, differ by rounding, at most
    1e-4 of a vector's norm in float32 on CPUs.

    The engine's passes and trainings use all threads, the rest of a probe one thread.

    `trained` is True if a probe has trained something, so that its scores depend on the seed.
    `train` sets it, and so does a probe that trains without the engine. `saturated` counts the
    probabilities of exactly 0 or 1 among scores that were compared.
    """

    def __init__(
        self,
        settings: ComputeSettings,
        *,
        store: Store | None = None,
        identities: Identities | None = None,
        progress: Progress | None = None,
        processes: Processes | None = None,
        known: Mapping[int, KnownModel] | None = None,
        data: str = "",
    ) -> None:
        """Take the identity of each live adapter under its `id`, empty if it has no identity.

        `known` contains their names and further facts; `data` names the data that they read, for
        users who inspect the cache.
        """
        self.settings = settings
        self._store = store
        self._identities = dict(identities or {})
        self._progress = progress or NoProgress()
        self._processes = processes or Processes(cpu=True)
        self._known = dict(known or {})
        # Kept alive as long as the engine, which identifies a model by its `id`.
        self._cuts: list[Any] = []
        self._data = data
        self._repeating: dict[tuple[int, str], Repeating] = {}
        self.trained = False
        self.saturated = 0

    @classmethod
    def for_tests(cls) -> Engine:
        """Return an engine on the CPU that stores nothing."""
        return cls(ComputeSettings(torch.device("cpu")))

    @property
    def device(self) -> torch.device:
        """The device of adapters and of probes' computations."""
        return self.settings.device

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes."""
        return self._processes.is_main

    def read_by(self, companion: Any, data: Data) -> Data:
        """Return the same rows with the regions that a companion reads, if it reads others."""
        entry = self._known.get(id(companion))
        return data if entry is None or entry.data is None else entry.data

    def name_of(self, model: Any) -> str:
        """Return a live model's name in a row or a task; if it has no name, its class."""
        entry = self._known.get(id(model))
        return entry.name if entry else type(model).__name__

    @contextmanager
    def untrained(self, model: Any, draw: int) -> Iterator[Any]:
        """Yield the same network with random weights, which takes its memory until the block ends.

        Draws are numbered from 1, and have other seeds than the model. The outputs of each draw are
        stored under a separate identity. Raises CannotDo, with the reason, if the model has no such
        network.
        """
        entry = self._known.get(id(model))
        if entry is None or entry.untrained is None:
            raise CannotDo("models.yaml does not list the model")
        network, identity = entry.untrained(draw)
        self._identities = {**self._identities, id(network): identity}
        named = KnownModel(f"{entry.name} with random weights, draw {draw}")
        self._known = {**self._known, id(network): named}
        try:
            yield network
        finally:
            # Another object may get its `id`.
            del self._identities[id(network)], self._known[id(network)]
            for key in [pair for pair in self._repeating if pair[0] == id(network)]:
                del self._repeating[key]

    @all_threads()
    def features(self, encode: Callable[[Any], Tensor], column: Column) -> Tensor:
        """Return an adapter's outputs for a column: float32 [N, D], a copy on the CPU.

        Images pass through the adapter's `preprocess` first. Raises ValueError for an output of
        another shape and for NaN or infinite values, with the row.
        """
        features = self._features(encode, column, torch.inf)
        assert isinstance(features, Tensor)
        return features

    def cut(self, model: Model, what: Cut) -> Model:
        """Return the model without some parts, under its name but with another identity."""
        cut = model.cut(what)
        identity = self._identities.get(id(model))
        self._cuts.append(cut)
        donors = [what.donors.digest, what.donors.averaged] if what.donors else []
        parts = [what.heads, what.looks, *donors]
        self._identities[id(cut)] = digest([identity, parts]) if identity else ""
        if id(model) in self._known:
            self._known[id(cut)] = self._known[id(model)]
        return cut

    def count_saturated(self, kind: str, scores: Tensor) -> None:
        """Count probabilities that rounded to 0 or 1, which are tied."""
        if kind == PROBABILITY:
            self.saturated += int(((scores == 0) | (scores == 1)).sum())

    @property
    def store(self) -> Store | None:
        """The store of features; None if nothing is stored."""
        return self._store

    @property
    def is_alone(self) -> bool:
        """Whether this is the only process."""
        return self._processes.size == 1

    def attempt(self, work: Callable[[], Found]) -> list[Found]:
        """Do work in every process; return all results, or raise the first error in all."""
        return self._processes.attempt(work)

    def key_of(self, compute: Encode, column: Column) -> str | None:
        """Return the key of the outputs of an adapter's method; None if nothing is stored."""
        identity = self._identities.get(id(compute.adapter), "")
        key = features_key(identity, compute, compute.name, column) if self._store else None
        return self._described(key, f"{compute.name} of {column.kind}s", [compute.adapter])

    def _described(self, key: str | None, what: str, of: Iterable[Any]) -> str | None:
        """Record in the store what a key's values are, and return the key."""
        if self._store and key:
            models = sorted({self.name_of(model) for model in of if id(model) in self._identities})
            about = {"models": models, "what": what, "data": self._data}
            self._store.describe(key, about)
        return key

    def own_shards(
        self, rows: Sequence[int], places: Mapping[int, Sequence[int]]
    ) -> dict[int, list[int]]:
        """Return the rows of each shard that this process computes, from `places_by_shard`."""
        numbers = [*places][self._processes.rank :: self._processes.size]
        return {number: [rows[place] for place in places[number]] for number in numbers}

    def show_pass(self, what: str, column: Column) -> Callable[[int], None]:
        """Show a pass over a column; return a function that counts its rows."""
        self._progress.start(f"{what} on {column.kind}s", len(column))
        return self._advance

    @all_threads()
    def features_up_to(
        self, encode: Callable[[Any], Tensor], column: Column, most: float
    ) -> Features:
        """Return the result of `features`; above `most` bytes it stays in the store."""
        return self._features(encode, column, most)

    @all_threads()
    def large_features(self, encode: Callable[[Any], Tensor], column: Column) -> Features:
        """Return the result of `features`; above a gigabyte it stays in the store."""
        return self._features(encode, column, IN_MEMORY)

    def _features(self, encode: Callable[[Any], Tensor], column: Column, most: float) -> Features:
        """Return features [N, D], in memory if they have at most `most` bytes."""
        compute = Encode(self.checked(encode), column, self.settings)
        key = self.key_of(compute, column)
        # With several processes, each stores only its shards, and their disks may differ.
        store = self._store if key and self._processes.size == 1 else None
        out, fits = torch.empty((0, 0)), True
        self._progress.start(f"{compute.name} on {column.kind}s", len(column))
        for places, values in self._shards(key, column.rows, compute):
            if not out.numel() and fits:
                size = (len(column), len(values[0]))
                fits = store is None or math.prod(size) * out.itemsize <= most
                out = torch.empty(size) if fits else out
            if fits:
                out[places] = values if isinstance(values, Tensor) else torch.stack(values)
        return out if fits or not store or not key else StoredRows(store, key, column.rows)

    def checked(self, method: Method) -> Method:
        """Return an adapter's method that passes four examples of its first batch again.

        It then raises SpecError for outputs that depend on their batch. It is for code that calls
        the method inside `map` or `spread`; the check runs once per engine.
        """
        key = id(getattr(method, "__self__", method)), getattr(method, "__name__", "")
        if key not in self._repeating:
            self._repeating[key] = Repeating(method, self.settings.dtype)
        return cast("Method", self._repeating[key])

    def require_pairwise(self, model: Any, images: Tensor, texts: Tensor) -> None:
        """Raise SpecError if a model's similarity of a pair of vectors depends on other pairs.

        It is also raised if `similarity` changes its vectors, or its result is not [N, M]. The
        first of [N, D] images and [M, D] texts are passed.
        """
        first, second = (side[:REPEATED].to(self.device) for side in (images, texts))
        require_pairwise(model, first, second, self.settings.dtype)

    @all_threads()
    def map(
        self,
        function: Callable[..., Sequence[Any]],
        *columns: Column,
        key: Mapping[str, Any] | None = None,
        one_by_one: bool = False,
    ) -> list[Any]:
        """Return one output per example, in order: `function` gets one list of values per column.

        With `one_by_one`, for slow examples, each is computed and stored separately. Outputs are
        stored only if a key is given. The key consists of plain values, tensors and live models,
        and must name all that the outputs depend on besides the columns and the code that the
        function reaches. Outputs that depend on a model without an identity are not stored.
        """
        rows = range(len(columns[0]))
        compute = Apply(function, columns, self.settings)
        stored = None
        if self._store and key:
            stored = map_key([compute, function], columns, key, self._identities)
            self._described(stored, str(key.get("what", "outputs")), key.values())
        outputs: list[Any] = [None] * len(rows)
        self._progress.start(getattr(function, "__name__", "map"), len(rows))
        shard = 1 if one_by_one else SHARD
        for places, values in self._shards(stored, rows, compute, shard):
            for place, value in zip(places, values, strict=True):
                outputs[place] = value
        return outputs

    def encode_regions(self, encoder: RegionEncoder, split: Split) -> Split:
        """Return a split whose `regions` are its pictures' regions with vectors of an encoder.

        Raises DataError for a picture without regions.
        """
        encode, column = self.checked(encoder.encode_regions), split["picture"]

        def vectors(pictures: Sequence[Picture]) -> list[Tensor]:
            of_pictures = [picture.regions for picture in pictures if picture.regions]
            if len(of_pictures) < len(pictures):
                raise DataError("a picture has no regions to encode")
            encoded = encode(pictures, [regions.boxes for regions in of_pictures])
            return [part.float().cpu() for part in encoded]

        vectors_by_picture = self.map(vectors, column, key={"model": encoder})
        pairs = zip((picture.regions for picture in column), vectors_by_picture, strict=True)
        regions = [region._replace(vectors=new) for region, new in pairs]
        names = column.ids
        made = Column(digest(regions), "value", regions, range(len(regions)), names)
        return Split({**split.columns, "regions": made})

    def once(self, key: Mapping[str, Any], build: Callable[[], Any]) -> Any:
        """Return what `build` made for this key, now or in an earlier run of the same code.

        The main process builds; the others get its result. The key, of plain values, tensors and
        live models, must name all that the value depends on besides the code that `build` reaches.
        The value consists of tensors and plain values.
        """
        stored = once_key(build, key, self._identities) if self._store else None
        self._described(stored, str(key.get("what", "value")), key.values())

        def load_or_build() -> Any:
            if not self.is_main:
                return None
            if not self._store or not stored:
                return {"value": build()}
            # Simultaneous runs wait for the first of them, up to PATIENCE.
            with self._store.locked(stored, "once", seconds=PATIENCE):
                value = self._store.load(stored, "once")
                if not isinstance(value, dict) or "value" not in value:
                    value = {"value": build()}
                    self._store.save(stored, "once", value)
            return value

        return self._processes.attempt(load_or_build)[0]["value"]

    def train(
        self,
        key: Mapping[str, Any],
        make: Callable[[], Training],
        what: str,
        *,
        sizes: Sequence[int] = (),
    ) -> Any:
        """Return the result of the training that `make` returns, now or of an earlier run.

        The key, of plain values, tensors and live models, must name all that the result depends on
        besides the code that `make` reaches. A training that depends on a model without an identity
        is not stored. `what` names it to the user. All threads compute; if matrix products of these
        `sizes` dominate the training, `threads_for` chooses the number of threads.
        """
        self.trained = True
        stored = once_key(make, key, self._identities) if self._store else None
        self._described(stored, what, key.values())
        store = self._store if stored else None
        place = Place(store, stored or "", self._processes, self._progress)
        with threads_for(*sizes) if sizes else all_threads():
            return train(place, make, what)

    @property
    def sharing(self) -> Sharing:
        """How a training shares its gradients among the processes."""
        return Sharing(self._processes)

    @torch.no_grad()
    @all_threads()
    def spread(
        self,
        function: Callable[[Sequence[Any]], Sequence[Any]],
        items: Sequence[Any],
        what: str = "",
    ) -> list[Any]:
        """Return one output per item, in order, on every process; nothing is stored.

        If `what` is given, progress is shown under this name. The items are cut into batches at
        fixed positions, which are divided among the processes. Outputs are plain values and tensors
        on the CPU. Raises ValueError if the numbers of outputs and items differ.
        """
        size = self.settings.rows_per_batch
        starts, processes = range(0, len(items), size), self._processes

        def own_outputs() -> list[list[Any]]:
            outputs = []
            for start in starts[processes.rank :: processes.size]:
                some = items[start : start + size]
                outputs.append(_as_many(function, some))
                if what:
                    self._advance(len(some))
            return outputs

        if what:
            self._progress.start(what, len(items))
        shares = processes.attempt(own_outputs)
        parts = [shares[i % processes.size][i // processes.size] for i in range(len(starts))]
        return [output for part in parts for output in part]

    def watched(self, what: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Yield the items and show progress, for work that is not a pass over data."""
        self._progress.start(what, total)
        for item in items:
            yield item
            self._progress.advance(1)

    def copy(self, module: Module) -> Module:
        """Return a copy that a probe may train, so that the live adapter never changes."""
        return copy.deepcopy(module)

    def _shards(
        self, key: str | None, rows: Sequence[int], compute: Compute, shard: int = SHARD
    ) -> Iterator[tuple[list[int], Any]]:
        """Yield the places in `rows` and the outputs of each shard, computed by all processes."""
        places, size = places_by_shard(rows, shard), self._processes.size
        store = self._store if key else None
        batch_size = min(self.settings.rows_per_batch, shard)
        parts = PassParts(store, key or "", shard, compute, batch_size, self._advance)
        if size > 1 and len(places) < FEW * size and batch_size < shard:
            left = iter(places.items())
            # In groups, so that no process computes more than a shard's rows between two stores.
            while some := dict(islice(left, size)):
                yield from self._few_shards(parts, rows, some)
            return
        share = self.own_shards(rows, places)
        shards = each_shard(parts, share)
        together = 1 if size == 1 else shards_together(len(places) / size, shard)
        for _ in range(0, len(places), size * together):
            batch = self._processes.attempt(lambda: list(islice(shards, together)))
            for number, values in chain.from_iterable(batch):
                if size > 1:
                    self._progress.advance(len(places[number]))
                yield places[number], values

    def _few_shards(
        self, parts: PassParts, rows: Sequence[int], places: Mapping[int, Sequence[int]]
    ) -> Iterator[tuple[list[int], Any]]:
        """Yield what `_shards` does; the batches of these shards are divided among the processes.

        Outputs that any process has stored are not computed. Each shard is stored by the process
        that `own_shards` assigns it to, when all these batches are done.
        """
        shards = {number: [rows[place] for place in group] for number, group in places.items()}
        count = sum(map(len, shards.values()))
        distinct = set(chain.from_iterable(shards.values()))
        saved = {number: parts.stored(number) for number in shards}
        held = {row: saved[n][row] for n, some in shards.items() for row in some if row in saved[n]}
        by_process = self._processes.attempt(lambda: set(held))
        missing = distinct.difference(*by_process)
        lacking = [sorted(missing.intersection(some)) for some in shards.values()]
        dealt = [*batches(lacking, parts.batch_size, across=parts.compute.spans_shards)]
        share = dealt[self._processes.rank :: self._processes.size]
        advanced = 0

        def show(more: int) -> None:
            nonlocal advanced
            more = min(more, count - advanced)
            advanced += more
            self._progress.advance(more)

        def compute() -> list[tuple[list[int], Any]]:
            outputs = [([*held], pack([*held.values()]))] if held else []
            for done, values in parts.compute(share):
                # Pickled alone, a row of a batch would include the whole batch.
                outputs.append((done, pack([*values])))
                # The other processes have done about as many rows.
                show(len(done) * self._processes.size)
            return outputs

        def save() -> None:
            for number in self.own_shards(rows, places):
                parts.save(number, saved[number] | {row: held[row] for row in shards[number]})

        if any(one < distinct for one in by_process):
            fresh = chain.from_iterable(self._processes.attempt(compute))
            held = {row: v for done, values in fresh for row, v in zip(done, values, strict=True)}
            self._processes.attempt(save)
        show(count)
        for number, some in shards.items():
            yield list(places[number]), pack([held[row] for row in some])

    def _advance(self, rows: int) -> None:
        """Count rows; with several processes, the main process counts them as shards arrive."""
        if self._processes.size == 1:
            self._progress.advance(rows)


def _as_many(function: Callable[[Sequence[Any]], Sequence[Any]], items: Sequence[Any]) -> list[Any]:
    outputs = list(function(items))
    if len(outputs) != len(items):
        raise ValueError(f"{len(outputs)} outputs for {len(items)} items")
    return outputs
