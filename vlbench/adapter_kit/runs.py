"""Prompts about one image that a generative model runs: what they share, and what comes out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.adapter_kit.prompts import PER_TOKEN
from vlbench.errors import CannotDo


class Head(NamedTuple):
    """What all prompts about an image begin with.

    `ids` are those up to the tail, and `inputs` all that the model takes for one of the prompts;
    `of_tokens` are those beside PER_TOKEN that have an entry per token.
    """

    ids: list[int]
    inputs: dict[str, Any]
    name: str
    of_tokens: Sequence[str] = ()

    def pixels(self) -> dict[str, Any]:
        """Return the inputs that are the image."""
        return {name: value for name, value in self.inputs.items() if name not in PER_TOKEN}


class Run(NamedTuple):
    """The output of a model for some texts; its first position stands after `before` ids.

    `last` int64 [texts, count] are the places, in the logits, of the last ids of each row.
    """

    texts: list[int]
    output: Any
    before: int
    last: Tensor


class Runner(ABC):
    """Runs rows of ids after the head of an image, for the logits of the last `count` of a row.

    The last `count` ids less one are those of an answer. Rows run at most `at_once` at a time, and
    `options` go to the model. Of what all rows begin with, up to `shared` ids may run once and
    without the options. `cuts` says whether an id is read without those after it, so that a row may
    end at the last id that is asked about.
    """

    cuts = False

    def __init__(self, model: Any, head: Head) -> None:
        self._model = model
        self._head = head

    @abstractmethod
    def run(
        self,
        rows: Sequence[Sequence[int]],
        shared: int,
        at_once: int,
        count: int = 1,
        **options: Any,
    ) -> Iterator[Run]:
        """Yield the output for some rows after the other."""


class OneByOne(Runner):
    """Runs each prompt alone and whole, whatever a model could share between them."""

    def run(
        self,
        rows: Sequence[Sequence[int]],
        shared: int,
        at_once: int,
        count: int = 1,
        **options: Any,
    ) -> Iterator[Run]:
        """Yield the output for one row after the other."""
        del shared, at_once
        for i, row in enumerate(rows):
            output = self._model(**self._whole(row), logits_to_keep=count, **options)
            yield Run([i], output, 0, torch.arange(count)[None])

    def _whole(self, row: Sequence[int]) -> dict[str, Any]:
        """Return the inputs of a whole pass. Raises CannotDo for one of unknown shape."""
        head = self._head
        if head.of_tokens:
            raise CannotDo(f"{head.name} takes {head.of_tokens[0]} for each token of a prompt")
        ids = torch.tensor([[*head.ids, *row]], device=self._model.device)
        given = head.pixels() | {"input_ids": ids}
        for name in head.inputs.keys() & {*PER_TOKEN} - {"input_ids"}:
            fill = torch.full_like(ids, int(name == "attention_mask"))
            fill[:, : len(head.ids)] = head.inputs[name][:, : len(head.ids)]
            given[name] = fill
        return given


def last_places(lengths: Sequence[int], count: int) -> tuple[Tensor, Tensor]:
    """Return the last `count` places of rows of some lengths, where one output has them all.

    The first result are the places to keep, int64 [K], the second each row's among those, [N,
    count].
    """
    places = torch.tensor(lengths)[:, None] - count + torch.arange(count)
    kept = torch.unique(places)
    return kept, torch.searchsorted(kept, places)
