"""Features of a model's layers: an engine whose `encode_images` returns one layer's features."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from vlbench.capabilities import OUTPUT
from vlbench.data.records import Column
from vlbench.engine.engine import Engine, Method
from vlbench.engine.pass_checks import difference, require_tensor, tolerance
from vlbench.engine.passes import Encode, check_features
from vlbench.engine.shards import (
    SHARD,
    Features,
    PassParts,
    each_shard,
    places_by_shard,
    stored_outputs,
)
from vlbench.errors import CannotDo, SpecError, defined_at, require_known
from vlbench.system.digests import digest

# The name for all layers.
ALL = "all"

LOGGER = logging.getLogger(__name__)


class Tower(NamedTuple):
    """The names of a model's methods that list its layers and that encode its output."""

    names: str
    encode: str

    def methods(self, model: Any) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
        """Return a model's methods that list its layers and encode at them; None if it has none."""
        names, encode = (getattr(model, name, None) for name in (self.names, f"{self.encode}_at"))
        return (names, encode) if callable(names) and callable(encode) else None


IMAGES = Tower("layers", "encode_images")
TEXTS = Tower("text_layers", "encode_texts")
TOKENS = Tower("text_layers", "encode_tokens")


def layers_of(model: Any, name: str, layers: Sequence[str], tower: Tower = IMAGES) -> list[str]:
    """Return the requested layers of a model, in order of depth; `["all"]` requests each.

    Raises CannotDo for a model without layers, and UnknownNameError for an unknown layer.
    """
    methods = tower.methods(model)
    if methods is None:
        raise CannotDo(f"{name} gives no layers: it has no {tower.encode}_at")
    names, every = list(methods[0]()), list(layers) == [ALL]
    require_known("layer", [] if every else layers, names)
    return [stage for stage in names if every or stage in layers]


class Layers:
    """The layers of a model on an engine: one pass over a column computes all of them.

    Each layer is stored separately, so a probe has one layer's features in memory at a time. If
    there is no store, or the model has no identity, all features of a column stay in memory.
    """

    def __init__(
        self, model: Any, engine: Engine, names: Sequence[str], tower: Tower = IMAGES
    ) -> None:
        self.model, self.engine, self.names, self.tower = model, engine, names, tower
        self._joined = _AllLayers(model, names, tower, tolerance(engine.settings.dtype))
        self._kept: dict[tuple[str, str], Tensor] = {}

    def engine_at(self, name: str) -> Engine:
        """Return an engine on which the tower's output is its output at a layer."""
        return LayerEngine(self, name)

    def method(self, name: str) -> Callable[[Any], Any]:
        """Return a function that encodes at a layer; for the output, the model's method."""
        if name == OUTPUT:
            encoder: Callable[[Any], Any] = getattr(self.model, self.tower.encode)
            return encoder
        return _AtLayer(self.model, name, self.tower)

    def is_of(self, method: Callable[..., Any]) -> bool:
        """Return whether a method is the model's method that layers replace."""
        is_bound = getattr(method, "__self__", None) is self.model
        return is_bound and getattr(method, "__name__", "") == self.tower.encode

    def features(self, name: str, column: Column, most: float) -> Features:
        """Return the features of a layer, as an engine does."""
        keys = {layer: self._key(layer, column) for layer in self.names}
        if all(keys.values()):
            self.engine.attempt(lambda: self._fill(column, keys))
        elif self.engine.is_alone:
            return self._in_memory(name, column)
        return self.engine.features_up_to(self.method(name), column, most)

    def _key(self, layer: str, column: Column) -> str | None:
        encode = Encode(self.method(layer), column, self.engine.settings)
        return self.engine.key_of(encode, column)

    def _fill(self, column: Column, keys: dict[str, Any]) -> None:
        """Compute this process's shards that are not stored, in one pass, and store them."""
        store = self.engine.store
        assert store
        lacking: dict[int, list[int]] = {}
        for number, rows in self.engine.own_shards(
            column.rows, places_by_shard(column.rows)
        ).items():
            stored = [stored_outputs(store, key, number) for key in keys.values()]
            if any(not set(rows) <= kept.keys() for kept in stored):
                lacking[number] = rows
        if not lacking:
            return
        joined = self._joined
        self._say_size(joined, column, sum(map(len, lacking.values())))
        for number, values in each_shard(self._parts(joined, column), lacking):
            for layer, part in zip(self.names, torch.split(values, joined.widths, 1), strict=True):
                self._add(keys[layer], number, lacking[number], part)

    def _add(self, key: str, number: int, rows: Sequence[int], values: Tensor) -> None:
        """Add rows of a layer to the stored rows of their shard."""
        store = self.engine.store
        assert store
        merged = stored_outputs(store, key, number) | dict(zip(rows, values.clone(), strict=True))
        ordered = sorted(merged)
        content = {"rows": ordered, "values": torch.stack([merged[row] for row in ordered])}
        store.save(key, f"{number:06d}", content)

    def _in_memory(self, name: str, column: Column) -> Tensor:
        selected = digest([column.key, list(column.rows)])
        if (selected, name) not in self._kept:
            joined = self._joined
            parts = self._parts(joined, column)
            places = places_by_shard(column.rows)
            by_shard = {n: [column.rows[place] for place in shard] for n, shard in places.items()}
            order, values = list[int](), list[Tensor]()
            for number, part in each_shard(parts, by_shard):
                order += places[number]
                values.append(part)
            whole = torch.cat(values)[torch.tensor(order).argsort()]
            for layer, block in zip(self.names, torch.split(whole, joined.widths, 1), strict=True):
                self._kept[selected, layer] = block.clone()
        return self._kept[selected, name]

    def _parts(self, joined: _AllLayers, column: Column) -> PassParts:
        encode = _EncodeLayers(joined, self.engine, column)
        size = min(self.engine.settings.rows_per_batch, SHARD)
        return PassParts(None, "", SHARD, encode, size, self.engine.show_pass(joined.what, column))

    def _say_size(self, joined: _AllLayers, column: Column, rows: int) -> None:
        """Log the bytes that all layers of all rows need, computed from the first row."""
        first: Any = [column[0]]
        if column.kind == "image":
            first = self.model.preprocess(column[0])[None].to(self.engine.device)
        with torch.no_grad():
            joined(first)
        each = 4 * sum(joined.widths)
        sizes = f"{each / 1e3:,.1f} kB for each of {rows:,} {column.kind}s"
        LOGGER.info("%d layers are stored: %s, %.3g MB", len(self.names), sizes, each * rows / 1e6)


class LayerEngine(Engine):
    """An engine on which the output of a model's tower is its output at one of the layers.

    For a stored value that depends on the model, such as a training, the layer is part of the
    model's identity.
    """

    def __init__(self, layers: Layers, name: str) -> None:
        """Take the layers of a model, and the name of one layer."""
        self.__dict__.update(layers.engine.__dict__)
        self._layers, self._name = layers, name
        identities = dict(self._identities)
        if identity := identities.get(id(layers.model)):
            identities[id(layers.model)] = digest([identity, "layer", name])
        self._identities = identities

    def checked(self, method: Method) -> Method:
        """Return the checked encoder at the layer; any other method is checked unchanged."""
        at_layer = self._layers.method(self._name) if self._layers.is_of(method) else method
        return super().checked(cast("Method", at_layer))

    def _features(self, encode: Callable[[Any], Tensor], column: Column, most: float) -> Features:
        if not self._layers.is_of(encode):
            return super()._features(encode, column, most)
        return self._layers.features(self._name, column, most)


class _AllLayers:
    """A model's method for several layers: concatenated vectors, of these `widths`."""

    def __init__(self, model: Any, names: Sequence[str], tower: Tower, accepted: float) -> None:
        # An engine identifies a checked method by its name.
        self.__self__, self.__name__ = model, f"{tower.encode}_at {', '.join(names)}"
        self.names, self.widths, self.what = names, list[int](), f"{len(names)} layers"
        self.tower = tower
        self.part_names = [f"{tower.encode}_at {name}" for name in names]
        self._encode, self._accepted = getattr(model, f"{tower.encode}_at"), accepted

    def __call__(self, values: Any) -> Tensor:
        by_layer = self._encode(values, self.names)
        if absent := [name for name in self.names if name not in by_layer]:
            raise ValueError(f"{self.tower.encode}_at gave no layer {', '.join(absent)}")
        parts = [require_tensor(f"layer {name}", by_layer[name]).float() for name in self.names]
        for name, part in zip(self.names, parts, strict=True):
            if part.ndim != 2 or len(part) != len(values):
                shape = list(part.shape)
                raise ValueError(f"layer {name} gave {shape} for {len(values)} rows")
        if OUTPUT in self.names and not self.widths:
            self._require_output(values, parts[self.names.index(OUTPUT)].clone())
        self.widths = [part.shape[1] for part in parts]
        return torch.cat(parts, 1)

    def _require_output(self, values: Any, at_output: Tensor) -> None:
        """Raise SpecError if the layer `output`, which is stored as the output, is another."""
        method = getattr(self.__self__, self.tower.encode)
        rows = list(zip(at_output, method(values).float(), strict=True))
        if why := difference(rows, self._accepted):
            where = f"{defined_at(self._encode)}: layer {OUTPUT}"
            raise SpecError(f"{where} differs from the result of {self.tower.encode}: {why}")


class _EncodeLayers(Encode):
    """Passes rows through a method for several layers, and checks each layer separately."""

    def __init__(self, joined: _AllLayers, engine: Engine, column: Column) -> None:
        super().__init__(engine.checked(joined), column, engine.settings)
        self._joined = joined

    def _check(self, rows: list[int], values: Tensor) -> Tensor:
        parts = torch.split(values, self._joined.widths, 1)
        named = zip(self._joined.part_names, parts, strict=True)
        return torch.cat([check_features(name, rows, part) for name, part in named], 1)


class _AtLayer:
    """A model's method for one layer."""

    def __init__(self, model: Any, name: str, tower: Tower) -> None:
        self.__self__, self.__name__ = model, f"{tower.encode}_at {name}"
        self._encode, self._name = getattr(model, f"{tower.encode}_at"), name

    def __call__(self, values: Any) -> Any:
        return self._encode(values, [self._name])[self._name]
