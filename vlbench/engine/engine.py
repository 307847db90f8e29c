"""The engine: passes data through models in batches, once, and stores the outputs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from vlbench.capabilities import PROBABILITY, Cut, Intervenable, Picture, RegionEncoder
from vlbench.code.identity import code_digest
from vlbench.data.records import Column, Data, Split
from vlbench.digests import digest
from vlbench.engine.devices import ComputeSettings
from vlbench.engine.pass_checks import Repeating
from vlbench.engine.passes import Apply, Compute, Encode
from vlbench.engine.processes import Processes
from vlbench.engine.progress import NoProgress, Progress
from vlbench.engine.shards import (
    PATIENCE,
    SHARD,
    Features,
    Parts,
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
from vlbench.threads import all_threads, threads_for

# What each live adapter is known by, under its `id`; empty where nothing identifies it.
Identities = Mapping[int, str]

# Where there are fewer shards for each of several processes, batches are dealt out.
FEW = 4

# Features of more bytes are left in the store by `large_features`.
IN_MEMORY = 1 << 30


def features_key(identity: str, compute: Any, name: str, column: Column) -> str | None:
    """Return the key of the features that a model's method computes of a stored column."""
    return _key([identity, *_codes(compute, column)], [name, column.key])


def map_key(
    functions: Sequence[Any], columns: Sequence[Column], key: Mapping[str, Any], known: Identities
) -> str | None:
    """Return the key of the outputs of functions for the selected rows of columns."""
    values, models = _parts(key, known)
    selected = [[column.key, list(column.rows)] for column in columns]
    return _key([*models, *_codes(*functions, *columns)], [values, selected])


def once_key(build: Any, key: Mapping[str, Any], known: Identities) -> str | None:
    """Return the key of a value that is built once."""
    values, models = _parts(key, known)
    return _key([*models, *_codes(build)], values)


def _key(required: Sequence[str | None], parts: Any) -> str | None:
    return digest([list(required), parts]) if all(required) else None


def _parts(key: Mapping[str, Any], known: Identities) -> tuple[dict[str, Any], list[str]]:
    """Return a key with the identity of each model in place of the model, and the identities."""
    models = {name: known[id(value)] for name, value in key.items() if id(value) in known}
    return {**key, **models}, list(models.values())


def _codes(*things: Any) -> Iterator[str | None]:
    """Yield the digest of the code of functions, and of what makes the values of columns."""
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
    """A live model's name, and its own view of the data if it reads another kind of regions.

    `untrained` loads the same network with random weights and returns it with its identity.
    """

    name: str
    data: Data | None = None
    untrained: Callable[[], tuple[Any, str]] | None = None


class Engine:
    """Runs models on columns, so that probes need not know of devices, batches or the store.

    A column is cut into shards and a shard into batches at fixed positions of the stored column,
    however many processes there are, so that one process and several compute the same bytes. A
    batch leaves out rows that are stored already, and no BLAS gives a row the same bits in batches
    of different sizes: features then differ by rounding, at most 1e-4 of a vector's norm in float32
    on CPUs.

    All threads compute in its passes and trainings, and one in the rest of a probe.

    `trained` says whether a probe has trained something, so that its scores move with the seed.
    `train` sets it, and so does a probe that trains by itself. `saturated` counts the probabilities
    of exactly 0 or 1 among scores that were compared.
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
        """Take the identity of each live adapter under its `id`, empty where it has none.

        `known` is what else is known of them; `data` names what they read, to whoever looks into
        the cache.
        """
        self.settings = settings
        self._store = store
        self._identities = dict(identities or {})
        self._progress = progress or NoProgress()
        self._processes = processes or Processes(cpu=True)
        self._known = dict(known or {})
        # Alive as long as the engine, which knows a model by its `id`.
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
        """Where adapters live and probes compute."""
        return self.settings.device

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes."""
        return self._processes.is_main

    def read_by(self, companion: Any, data: Data) -> Data:
        """Return the same rows with the regions that a companion reads, where it reads others."""
        known = self._known.get(id(companion))
        return data if known is None or known.data is None else known.data

    def name_of(self, model: Any) -> str:
        """Return the name that a row or a task gives a live model; its class where it has none."""
        known = self._known.get(id(model))
        return known.name if known else type(model).__name__

    def untrained(self, model: Any) -> Any:
        """Return the same network with random weights, which takes its memory a second time.

        It is loaded at the first call, and stored outputs of it are under its own identity. Raises
        CannotDo, with the reason, if the model has no such network.
        """
        known = self._known.get(id(model))
        if known is None or known.untrained is None:
            raise CannotDo("models.yaml does not list the model")
        network, identity = known.untrained()
        self._identities = {**self._identities, id(network): identity}
        named = KnownModel(f"{known.name} with random weights")
        self._known = {**self._known, id(network): named}
        return network

    @all_threads()
    def features(self, encode: Callable[[Any], Tensor], column: Column) -> Tensor:
        """Return an adapter's method over a column: float32 [N, D] on the CPU, a copy of its own.

        Images pass through the adapter's `preprocess` first. Raises ValueError for an output of
        another shape and for NaN or infinite values, with the row.
        """
        features = self._features(encode, column, torch.inf)
        assert isinstance(features, Tensor)
        return features

    def cut(self, model: Model, what: Cut) -> Model:
        """Return the model without some parts, under its name and with an identity of its own."""
        cut = model.cut(what)
        identity = self._identities.get(id(model))
        self._cuts.append(cut)
        self._identities[id(cut)] = digest([identity, list(what)]) if identity else ""
        if id(model) in self._known:
            self._known[id(cut)] = self._known[id(model)]
        return cut

    def count_saturated(self, kind: str, scores: Tensor) -> None:
        """Count probabilities that rounded to 0 or 1, where none is higher than another."""
        if kind == PROBABILITY:
            self.saturated += int(((scores == 0) | (scores == 1)).sum())

    @property
    def store(self) -> Store | None:
        """Where features are stored, if anywhere."""
        return self._store

    @property
    def is_alone(self) -> bool:
        """Whether this is the only process."""
        return self._processes.size == 1

    def attempt(self, work: Callable[[], Found]) -> list[Found]:
        """Do work in every process; all raise the first error, or get what each returned."""
        return self._processes.attempt(work)

    def key_of(self, compute: Encode, column: Column) -> str | None:
        """Return the key of what an adapter's method computes; None where nothing is stored."""
        identity = self._identities.get(id(compute.adapter), "")
        key = features_key(identity, compute, compute.name, column) if self._store else None
        return self._described(key, f"{compute.name} of {column.kind}s", [compute.adapter])

    def _described(self, key: str | None, what: str, of: Iterable[Any]) -> str | None:
        """Let the store say of what the values under a key are, and return the key."""
        if self._store and key:
            models = sorted({self.name_of(one) for one in of if id(one) in self._identities})
            about = {"models": models, "what": what, "data": self._data}
            self._store.describe(key, about)
        return key

    def own_shards(
        self, rows: Sequence[int], places: Mapping[int, Sequence[int]]
    ) -> dict[int, list[int]]:
        """Return the rows of each shard that this process computes, from `places_by_shard`."""
        own = [*places][self._processes.rank :: self._processes.size]
        return {number: [rows[place] for place in places[number]] for number in own}

    def show_pass(self, what: str, column: Column) -> Callable[[int], None]:
        """Show a pass over a column, and return what counts its rows."""
        self._progress.start(f"{what} on {column.kind}s", len(column))
        return self._advance

    @all_threads()
    def features_up_to(
        self, encode: Callable[[Any], Tensor], column: Column, most: float
    ) -> Features:
        """Return what `features` does; if it has more than `most` bytes, it stays in the store."""
        return self._features(encode, column, most)

    @all_threads()
    def large_features(self, encode: Callable[[Any], Tensor], column: Column) -> Features:
        """Return what `features` does; if larger than a gigabyte, it stays in the store."""
        return self._features(encode, column, IN_MEMORY)

    def _features(self, encode: Callable[[Any], Tensor], column: Column, most: float) -> Features:
        """Return features [N, D], in memory if they have at most `most` bytes."""
        compute = Encode(self.checked(encode), column, self.settings)
        key = self.key_of(compute, column)
        # Of several processes, each has stored but its own shards, maybe on a disk of its own.
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

        It then raises SpecError for outputs that depend on their batch. It is for what calls the
        method inside `map` or `spread`, and does so once in the life of this engine.
        """
        key = id(getattr(method, "__self__", method)), getattr(method, "__name__", "")
        if key not in self._repeating:
            self._repeating[key] = Repeating(method, self.settings.dtype)
        return cast("Method", self._repeating[key])

    @all_threads()
    def map(
        self,
        function: Callable[..., Sequence[Any]],
        *columns: Column,
        key: Mapping[str, Any] | None = None,
        one_by_one: bool = False,
    ) -> list[Any]:
        """Return one output per example, in order: `function` gets one list of values per column.

        Where an example takes long, `one_by_one` computes, and stores, each by itself. Outputs are
        stored only under a key, of plain values, tensors and live models, that names all that they
        depend on besides the columns and the code that the function reaches. What depends on a
        model without an identity is not stored.
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
        """Return a split whose `regions` are those of its pictures, as an encoder sees them.

        Raises DataError for a picture without regions.
        """
        encode, column = self.checked(encoder.encode_regions), split["picture"]

        def vectors(pictures: Sequence[Picture]) -> list[Tensor]:
            own = [picture.regions for picture in pictures if picture.regions]
            if len(own) < len(pictures):
                raise DataError("a picture has no regions to encode")
            encoded = encode(pictures, [regions.boxes for regions in own])
            return [one.float().cpu() for one in encoded]

        vectors_by_picture = self.map(vectors, column, key={"model": encoder})
        pairs = zip((picture.regions for picture in column), vectors_by_picture, strict=True)
        regions = [own._replace(vectors=new) for own, new in pairs]
        names = column.examples().ids
        made = Column(digest(regions), "value", regions, range(len(regions)), names)
        return Split({**split.columns, "regions": made})

    def once(self, key: Mapping[str, Any], build: Callable[[], Any]) -> Any:
        """Return what `build` made for this key, now or in an earlier run of the same code.

        The main process builds; the others get what it built. The key, of plain values, tensors and
        live models, names all that the value depends on besides the code that `build` reaches. The
        value is made of tensors and plain values.
        """
        stored = once_key(build, key, self._identities) if self._store else None
        self._described(stored, str(key.get("what", "value")), key.values())

        def load_or_build() -> Any:
            if not self.is_main:
                return None
            if not self._store or not stored:
                return {"value": build()}
            # Runs that are started together wait for the first of them, up to PATIENCE.
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

        The key, of plain values, tensors and live models, names all that the result depends on
        besides the code that `make` reaches. A training that depends on a model without an identity
        is not stored. `what` names it to the user. All threads compute; where a training is one of
        matrix products of these `sizes`, that is for `threads_for` to say.
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

        With `what`, it is shown how many are done.

        The items are cut into batches at fixed positions, which the processes share among them.
        Outputs are plain values and tensors on the CPU. Raises ValueError where `function` returns
        another number of outputs than it was given items.
        """
        size = self.settings.rows_per_batch
        starts, processes = range(0, len(items), size), self._processes

        def own() -> list[list[Any]]:
            outputs = []
            for start in starts[processes.rank :: processes.size]:
                some = items[start : start + size]
                outputs.append(_as_many(function, some))
                if what:
                    self._advance(len(some))
            return outputs

        if what:
            self._progress.start(what, len(items))
        shares = processes.attempt(own)
        parts = [shares[i % processes.size][i // processes.size] for i in range(len(starts))]
        return [output for part in parts for output in part]

    def watched(self, what: str, items: Iterable[Item], total: int) -> Iterator[Item]:
        """Yield the items and show how many are done: for work that is no pass over data."""
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
        """Yield the places in `rows` and the outputs of each shard; each process yields its own."""
        places, size = places_by_shard(rows, shard), self._processes.size
        store, batch_size = self._store if key else None, self.settings.rows_per_batch
        parts = Parts(store, key or "", shard, compute, batch_size, self._advance)
        if size > 1 and len(places) < FEW * size and batch_size < shard:
            left = iter(places.items())
            # In parts, so that no process computes more between two stores than a shard has rows.
            while some := dict(islice(left, size)):
                yield from self._few_shards(parts, rows, some)
            return
        mine = self.own_shards(rows, places)
        shards = each_shard(parts, mine)
        together = 1 if size == 1 else shards_together(len(places) / size, shard)
        for _ in range(0, len(places), size * together):
            several = self._processes.attempt(lambda: list(islice(shards, together)))
            for number, values in chain.from_iterable(several):
                if size > 1:
                    self._progress.advance(len(places[number]))
                yield places[number], values

    def _few_shards(
        self, parts: Parts, rows: Sequence[int], places: Mapping[int, Sequence[int]]
    ) -> Iterator[tuple[list[int], Any]]:
        """Yield what `_shards` does; the batches of these shards are dealt out to the processes.

        What one of them has stored is not computed. The shards are stored by those that would else
        compute them, when all these batches are done.
        """
        wanted = {number: [rows[place] for place in own] for number, own in places.items()}
        count = sum(map(len, wanted.values()))
        asked = set(chain.from_iterable(wanted.values()))
        known = {number: parts.stored(number) for number in wanted}
        own = {row: known[n][row] for n, some in wanted.items() for row in some if row in known[n]}
        there = self._processes.attempt(lambda: set(own))
        dealt = batches(sorted(asked.difference(*there)), parts.batch_size)
        mine = dealt[self._processes.rank :: self._processes.size]
        shown = 0

        def show(more: int) -> None:
            nonlocal shown
            more = min(more, count - shown)
            shown += more
            self._progress.advance(more)

        def compute() -> list[tuple[list[int], Any]]:
            outputs = [([*own], pack([*own.values()]))] if own else []
            for done, values in parts.compute(mine):
                # Sent by itself, a row of a batch would take the whole batch with it.
                outputs.append((done, pack([*values])))
                # The others are about as far.
                show(len(done) * self._processes.size)
            return outputs

        def save() -> None:
            for number in self.own_shards(rows, places):
                parts.save(number, known[number] | {row: own[row] for row in wanted[number]})

        if any(one < asked for one in there):
            computed = chain.from_iterable(self._processes.attempt(compute))
            own = {row: v for done, values in computed for row, v in zip(done, values, strict=True)}
            self._processes.attempt(save)
        show(count)
        for number, some in wanted.items():
            yield list(places[number]), pack([own[row] for row in some])

    def _advance(self, rows: int) -> None:
        """Count rows; of several processes, the main one counts for all as shards come in."""
        if self._processes.size == 1:
            self._progress.advance(rows)


def _as_many(function: Callable[[Sequence[Any]], Sequence[Any]], items: Sequence[Any]) -> list[Any]:
    outputs = list(function(items))
    if len(outputs) != len(items):
        raise ValueError(f"{len(outputs)} outputs for {len(items)} items")
    return outputs
