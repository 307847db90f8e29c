"""Batches of prompts about one image, run by a generative model with shared computation."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vlbench.adapter_kit.hugging_face import cache_argument
from vlbench.adapter_kit.vlm.prompts import PER_TOKEN, Prompt, common_run
from vlbench.errors import CannotDo

# The context manager of a pass, from the indices at which the ends of its prompts begin.
Around = Callable[[Sequence[int]], AbstractContextManager[None]]

# The most tokens per batch; a batch takes as many prompts as fit, and at least one.
TOKENS = 4096


class Head(NamedTuple):
    """The common beginning of all prompts about an image.

    `ids` are all ids before the tail, `inputs` the model's inputs for one whole prompt; `of_tokens`
    names the inputs besides PER_TOKEN that have an entry per token.
    """

    ids: list[int]
    inputs: dict[str, Any]
    name: str
    of_tokens: Sequence[str] = ()

    def pixels(self) -> dict[str, Any]:
        """Return the inputs that contain the image."""
        return {name: value for name, value in self.inputs.items() if name not in PER_TOKEN}


class Rows(NamedTuple):
    """Ids of prompts that follow an image, and how to run the prompts.

    The logits of the last `kept` ids of a row are kept. `answered` is the number of last ids of
    each row that belong to an answer, by default 0; below 0, the number of prompt ids cut from the
    row's end. At most `at_once` rows run at a time. Up to `shared` of the ids that all rows begin
    with may run only once.
    """

    ids: Sequence[Sequence[int]]
    shared: int
    at_once: int
    kept: int = 1
    answered: Sequence[int] = ()


class Batch(NamedTuple):
    """The output of a model for some texts; its first position comes after `before` ids.

    `last` int64 [texts, count] are the positions, in the logits, of the last ids of each row.
    """

    texts: list[int]
    output: Any
    before: int
    last: Tensor


class Runner(ABC):
    """Runs rows of ids after the head of an image.

    `cuts` is True if an id is read without the ids after it, so that a row may end at the last id
    of interest. Every pass runs inside the context manager that `around` returns for its prompts.
    """

    cuts = False

    def __init__(self, model: Any, head: Head, around: Around = lambda _: nullcontext()) -> None:
        self._model = model
        self._head = head
        self._around = around

    @abstractmethod
    def run(self, rows: Rows, **options: Any) -> Iterator[Batch]:
        """Yield the output for all rows, some at a time.

        `options` are passed to the model, but not for ids that run once for all rows.
        """

    def _ends(self, rows: Rows, texts: Sequence[int]) -> list[int]:
        """Return the index of the last id of each of some prompts."""
        answered = rows.answered or [0] * len(rows.ids)
        return [len(self._head.ids) + len(rows.ids[i]) - answered[i] - 1 for i in texts]


class OneByOne(Runner):
    """Runs each prompt alone and whole, even if a model could share computation."""

    def run(self, rows: Rows, **options: Any) -> Iterator[Batch]:
        """Yield the output of each row in turn."""
        for i, ids in enumerate(rows.ids):
            with self._around(self._ends(rows, [i])):
                output = self._model(**self._whole(ids), logits_to_keep=rows.kept, **options)
            yield Batch([i], output, 0, torch.arange(rows.kept)[None])

    def _whole(self, row: Sequence[int]) -> dict[str, Any]:
        """Return the inputs of a whole pass. Raises CannotDo if an input's shape is unknown."""
        head = self._head
        if head.of_tokens:
            raise CannotDo(f"{head.name} takes {head.of_tokens[0]} for each token of a prompt")
        ids = torch.tensor([[*head.ids, *row]], device=self._model.device)
        inputs = head.pixels() | {"input_ids": ids}
        for name in head.inputs.keys() & {*PER_TOKEN} - {"input_ids"}:
            fill = torch.full_like(ids, int(name == "attention_mask"))
            fill[:, : len(head.ids)] = head.inputs[name][:, : len(head.ids)]
            inputs[name] = fill
        return inputs


def last_places(lengths: Sequence[int], count: int) -> tuple[Tensor, Tensor]:
    """Return the last `count` positions of rows of some lengths, to keep in one padded output.

    The first result contains the positions to keep, int64 [K]; the second each row's indices into
    the first, [N, count].
    """
    places = torch.tensor(lengths)[:, None] - count + torch.arange(count)
    kept = torch.unique(places)
    return kept, torch.searchsorted(kept, places)


class Prefix(NamedTuple):
    """The cache of a model after the first `length` ids.

    `start` is the position of the next id; `axes` the number of axes of a position, 0 if a
    position is one number.
    """

    cache: Any
    length: int
    start: int
    axes: int


class SharedPrefix(Runner):
    """Runs the common beginning of prompts once, then each rest; needs causal attention."""

    cuts = True

    def run(self, rows: Rows, **options: Any) -> Iterator[Batch]:
        """Yield the output for the ids that the rows do not share, some rows at a time."""
        same = min(common_run(rows.ids), rows.shared)
        length = len(self._head.ids) + same
        with self._around([length]):
            prefix = run_prefix(self._model, self._head.inputs, length)
        for texts in torch.split(torch.arange(len(rows.ids)), rows.at_once):
            part = [rows.ids[i][same:] for i in texts.tolist()]
            kept, last = last_places([len(ids) for ids in part], rows.kept)
            keep = {"logits_to_keep": kept.to(self._model.device)}
            with self._around(self._ends(rows, texts.tolist())):
                output = continue_rows(self._model, prefix, part, **keep, **options)
            yield Batch(texts.tolist(), output, prefix.length, last)


def run_prefix(model: Any, inputs: Mapping[str, Any], length: int) -> Prefix:
    """Run the first `length` ids of a batch of one, with its image."""
    seen: list[Tensor | None] = []
    first = {k: v[:, :length] if k in PER_TOKEN else v for k, v in inputs.items()}
    with model.get_decoder().register_forward_pre_hook(
        lambda _, __, options: seen.append(options.get("position_ids")), with_kwargs=True
    ):
        output = model(**first, use_cache=True, logits_to_keep=1)
    positions = seen[0]
    start = length if positions is None else int(positions.max()) + 1
    axes = 0 if positions is None or positions.ndim < 3 else len(positions)
    return Prefix(output[cache_argument()], length, start, axes)


def continue_rows(model: Any, prefix: Prefix, rows: Sequence[Sequence[int]], **options: Any) -> Any:
    """Run rows of ids after a prefix, padded on the right; `options` go to the model.

    The prefix may be reused: its cache is copied. Positions are given, because a model that
    counts them itself may use the positions of the last image that it saw.
    """
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    filled = torch.arange(ids.shape[1])[None] < lengths[:, None]
    attended = torch.cat([torch.ones(len(rows), prefix.length, dtype=torch.bool), filled], 1)
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
        use_cache=True,
        **{cache_argument(): cache},
        **options,
    )


class PlainPrompt:
    """The image, the start of a text, the question and a newline, as in PaliGemma's processor.

    An answer is tokenised apart from the prompt, as PaliGemma's processor tokenises a suffix, and
    ends with the end of the text. Raises CannotDo for a tokenizer that has no start token.
    """

    def __init__(self, processor: Any, name: str) -> None:
        self._processor = processor
        if not processor.tokenizer.bos_token:
            raise CannotDo(f"{name} has no token for the start of a text, which its prompts need")

    def __call__(self, question: str) -> Prompt:
        """Return the question unchanged, without a task such as "answer en" before it."""
        image, first = self._processor.image_token, self._processor.tokenizer.bos_token
        read = f"{image}{first}{question}\n"
        return Prompt(read, f"{image}{question}", adds_special=False, blank=None)


class SharedImage(Runner):
    """Runs whole prompts, which share the features of their image."""

    @cached_property
    def _features(self) -> Any:
        return self._model.get_image_features(**self._head.pixels())

    def run(self, rows: Rows, **options: Any) -> Iterator[Batch]:
        """Yield the output for as many rows as fit into `TOKENS`, padded on the right."""
        whole = [torch.tensor([*self._head.ids, *ids]) for ids in rows.ids]
        answered = torch.tensor(rows.answered or [0] * len(whole))
        fitting = max(TOKENS // max(map(len, whole)), 1)
        for texts in torch.split(torch.arange(len(whole)), min(rows.at_once, fitting)):
            part = [whole[i] for i in texts.tolist()]
            lengths = [len(ids) for ids in part]
            kept, last = last_places(lengths, rows.kept)
            batch = self._batch(part, torch.tensor(lengths), answered[texts])
            keep = {"logits_to_keep": kept.to(self._model.device), "use_cache": False}
            with self._around(self._ends(rows, texts.tolist())):
                output = self._model(**batch, **keep, **options)
            yield Batch(texts.tolist(), output, 0, last)

    def _batch(self, rows: list[Tensor], lengths: Tensor, answered: Tensor) -> dict[str, Any]:
        """Return the inputs of rows of ids, the last `answered` of which belong to an answer."""
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        places = torch.arange(ids.shape[1])
        real, head = (places < ends[:, None] for ends in (lengths, lengths - answered))
        # The processor's token types: 0 for the image and the prompt, 1 for the answer.
        inputs = {"input_ids": ids, "attention_mask": real.long(), "token_type_ids": (~head).long()}
        features = self._features.pooler_output.expand(len(rows), -1, -1)
        return {name: value.to(self._model.device) for name, value in inputs.items()} | {
            "mm_encoder_outputs": {"image": type(self._features)(pooler_output=features)}
        }


def states_of_prompts(model: Any, batch: Mapping[str, Tensor]) -> Any:
    """Return the output of the language model for texts without an image, read as prompts."""
    types = torch.zeros_like(batch["input_ids"])
    return model.base_model(
        **batch, token_type_ids=types, output_hidden_states=True, use_cache=False
    )
