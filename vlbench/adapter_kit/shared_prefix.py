"""Sequences that begin alike: the part that they share runs once, and its cache is copied."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.adapter_kit.prompts import PER_TOKEN, common_run
from vlbench.adapter_kit.runs import Run, Runner, last_places


class Prefix(NamedTuple):
    """What a model keeps of the first `length` ids.

    `start` is the position of the next id; `axes` the number of axes of a position, 0 where a
    position is one number.
    """

    cache: Any
    length: int
    start: int
    axes: int


class SharedPrefix(Runner):
    """Runs what prompts begin with once, and then each on its own, read from left to right."""

    cuts = True

    def run(
        self,
        rows: Sequence[Sequence[int]],
        shared: int,
        at_once: int,
        count: int = 1,
        **options: Any,
    ) -> Iterator[Run]:
        """Yield the output for what the rows do not share, some rows at a time."""
        same = min(common_run(rows), shared)
        prefix = run_prefix(self._model, self._head.inputs, len(self._head.ids) + same)
        for texts in torch.split(torch.arange(len(rows)), at_once):
            part = [rows[i][same:] for i in texts.tolist()]
            kept, last = last_places([len(row) for row in part], count)
            keep = {"logits_to_keep": kept.to(self._model.device)}
            output = continue_rows(self._model, prefix, part, **keep, **options)
            yield Run(texts.tolist(), output, prefix.length, last)


def run_prefix(model: Any, inputs: Mapping[str, Any], length: int) -> Prefix:
    """Run the first `length` ids of a batch of one, with its image."""
    seen: list[Tensor | None] = []
    watch = model.get_decoder().register_forward_pre_hook(
        lambda _, __, given: seen.append(given.get("position_ids")), with_kwargs=True
    )
    first = {k: v[:, :length] if k in PER_TOKEN else v for k, v in inputs.items()}
    try:
        output = model(**first, use_cache=True, logits_to_keep=1)
    finally:
        watch.remove()
    positions = seen[0]
    start = length if positions is None else int(positions.max()) + 1
    axes = 0 if positions is None or positions.ndim < 3 else len(positions)
    return Prefix(output.past_key_values, length, start, axes)


def continue_rows(model: Any, prefix: Prefix, rows: Sequence[Sequence[int]], **options: Any) -> Any:
    """Run rows of ids after a prefix, padded on the right; `options` go to the model.

    The prefix may be continued again: its cache is copied. Positions are given, because a model
    that counts them by itself may go by the last image that it saw.
    """
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    own = torch.arange(ids.shape[1])[None] < lengths[:, None]
    attended = torch.cat([torch.ones(len(rows), prefix.length, dtype=torch.bool), own], 1)
    positions = prefix.start + torch.arange(ids.shape[1]).expand_as(ids)
    if prefix.axes:
        positions = positions.expand(prefix.axes, *positions.shape)
    cache = copy.deepcopy(prefix.cache)
    device = model.device
    cache.reorder_cache(torch.zeros(len(rows), dtype=torch.long, device=device))
    return model(
        input_ids=ids.to(device),
        attention_mask=attended.long().to(device),
        position_ids=positions.to(device),
        past_key_values=cache,
        use_cache=True,
        **options,
    )
