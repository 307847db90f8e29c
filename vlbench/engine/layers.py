"""Features of a model's layers: an engine that gives those of one layer for `encode_images`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from vlbench.capabilities import OUTPUT, LayerEncoder
from vlbench.data.records import Column
from vlbench.digests import digest
from vlbench.engine.engine import Engine
from vlbench.engine.passes import Encode
from vlbench.engine.shards import SHARD, Features, Parts, each_shard, places_by_shard
from vlbench.errors import CannotDo, unknown

# Stands for all layers.
ALL = "all"

LOGGER = logging.getLogger(__name__)


def layers_of(model: Any, name: str, asked: Sequence[str]) -> list[str]:
    """Return the layers of a model that are asked for, in order of depth; `all` alone is each.

    Raises CannotDo for a model without layers, and UnknownNameError for a layer that it lacks.
    """
    if not isinstance(model, LayerEncoder):
        raise CannotDo(f"{name} gives no layers: it has no encode_images_at")
    there, every = list(model.layers()), list(asked) == [ALL]
    for one in [] if every else asked:
        if one not in there:
            raise unknown("layer", one, there)
    return [one for one in there if every or one in asked]


class Layers:
    """The layers of a model on an engine: one pass over a column computes all of them.

    Each is stored by itself, so that a probe has one layer's features in memory at a time. Without
    a store, or for a model without an identity, all of a column's are kept in memory.
    """

    def __init__(self, model: LayerEncoder, engine: Engine, names: Sequence[str]) -> None:
        self.model, self.engine, self.names = model, engine, names
        self._joined = _AllLayers(model, names)
        self._kept: dict[tuple[str, str], Tensor] = {}

    def engine_at(self, name: str) -> Engine:
        """Return an engine for which the features of the model's images are those of a layer."""
        return LayerEngine(self, name)

    def features(self, name: str, column: Column, most: float) -> Features:
        """Return the features of a layer, as an engine does."""
        keys = {layer: self._key(layer, column) for layer in self.names}
        if all(keys.values()):
            self.engine.attempt(lambda: self._fill(column, keys))
        elif self.engine.is_alone:
            return self._in_memory(name, column)
        return self.engine.features_up_to(_method(self.model, name), column, most)

    def _key(self, layer: str, column: Column) -> str | None:
        method = _method(self.model, layer)
        return self.engine.key_of(Encode(method, column, self.engine.settings), column)

    def _fill(self, column: Column, keys: dict[str, Any]) -> None:
        """Compute and store what the store lacks of this process's shards, in one pass."""
        store = self.engine.store
        assert store
        lacking: dict[int, list[int]] = {}
        for number, rows in self.engine.own_shards(
            column.rows, places_by_shard(column.rows)
        ).items():
            parts = [store.load(key, f"{number:06d}") or {"rows": []} for key in keys.values()]
            if any(not set(rows) <= set(part["rows"]) for part in parts):
                lacking[number] = rows
        if not lacking:
            return
        joined = self._joined
        self._say_size(joined, column, sum(map(len, lacking.values())))
        for number, values in each_shard(self._parts(joined, column), lacking):
            for layer, part in zip(self.names, torch.split(values, joined.widths, 1), strict=True):
                self._add(keys[layer], number, lacking[number], part)

    def _add(self, key: str, number: int, rows: Sequence[int], values: Tensor) -> None:
        """Add rows of a layer to what is stored of their shard."""
        store = self.engine.store
        assert store
        saved = store.load(key, f"{number:06d}") or {"rows": [], "values": []}
        known = dict(zip(saved["rows"], saved["values"], strict=True))
        known |= dict(zip(rows, values.clone(), strict=True))
        ordered = sorted(known)
        content = {"rows": ordered, "values": torch.stack([known[row] for row in ordered])}
        store.save(key, f"{number:06d}", content)

    def _in_memory(self, name: str, column: Column) -> Tensor:
        selected = digest([column.key, list(column.rows)])
        if (selected, name) not in self._kept:
            joined = self._joined
            parts = self._parts(joined, column)
            places = places_by_shard(column.rows)
            wanted = {n: [column.rows[place] for place in own] for n, own in places.items()}
            order, values = list[int](), list[Tensor]()
            for number, part in each_shard(parts, wanted):
                order += places[number]
                values.append(part)
            whole = torch.cat(values)[torch.tensor(order).argsort()]
            for layer, own in zip(self.names, torch.split(whole, joined.widths, 1), strict=True):
                self._kept[selected, layer] = own.clone()
        return self._kept[selected, name]

    def _parts(self, joined: _AllLayers, column: Column) -> Parts:
        encode = Encode(self.engine.checked(joined), column, self.engine.settings)
        size = self.engine.settings.rows_per_batch
        return Parts(None, "", SHARD, encode, size, self.engine.show_pass(joined.what, column))

    def _say_size(self, joined: _AllLayers, column: Column, rows: int) -> None:
        """Say how many bytes all layers of so many images are, after a look at the first."""
        pixels = self.model.preprocess(column[0])[None].to(self.engine.device)
        with torch.no_grad():
            joined(pixels)
        each = 4 * sum(joined.widths)
        size = f"{each / 1024:.1f} kB for each of {rows:,} images, {each * rows / 1e6:,.0f} MB"
        LOGGER.info("%d layers are stored: %s", len(self.names), size)


class LayerEngine(Engine):
    """An engine for which the features of a model's images are those of one of its layers.

    What a probe stores of the model, such as a training, counts the layer as part of the model.
    """

    def __init__(self, layers: Layers, name: str) -> None:
        """Take the layers of a model, and one of them."""
        self.__dict__.update(layers.engine.__dict__)
        self._layers, self._name = layers, name
        known = dict(self._identities)
        if identity := known.get(id(layers.model)):
            known[id(layers.model)] = digest([identity, "layer", name])
        self._identities = known

    def _features(self, encode: Callable[[Any], Tensor], column: Column, most: float) -> Features:
        if getattr(encode, "__self__", None) is not self._layers.model:
            return super()._features(encode, column, most)
        return self._layers.features(self._name, column, most)


class _AllLayers:
    """A model's method for several layers, whose vectors stand in a row; `widths` are theirs."""

    def __init__(self, model: LayerEncoder, names: Sequence[str]) -> None:
        # An engine knows a method that it has checked by its name.
        self.__self__, self.__name__ = model, f"encode_images_at {', '.join(names)}"
        self.names, self.widths, self.what = names, list[int](), f"{len(names)} layers"

    def __call__(self, pixels: Tensor) -> Tensor:
        found = self.__self__.encode_images_at(pixels, self.names)
        parts = [found[name].float() for name in self.names]
        for name, part in zip(self.names, parts, strict=True):
            if part.shape[:-1] != pixels.shape[:1]:
                shape = list(part.shape)
                raise ValueError(f"layer {name} gave {shape} for {len(pixels)} images")
        self.widths = [part.shape[1] for part in parts]
        return torch.cat(parts, 1)


class _AtLayer:
    """A model's method for one layer."""

    def __init__(self, model: LayerEncoder, name: str) -> None:
        self.__self__, self.__name__ = model, f"encode_images_at {name}"
        self._name = name

    def __call__(self, pixels: Tensor) -> Tensor:
        return self.__self__.encode_images_at(pixels, [self._name])[self._name]


def _method(model: LayerEncoder, name: str) -> Callable[[Tensor], Tensor]:
    """Return what encodes images at a layer; of the output it is `encode_images` itself."""
    return model.encode_images if name == OUTPUT else _AtLayer(model, name)
