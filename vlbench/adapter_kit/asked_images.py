"""One image in a chat with a generative model, and several texts that are asked about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.chat_prompts import PER_TOKEN, Answer, Chat, common_run
from vlbench.adapter_kit.shared_prefix import continue_rows, run_prefix
from vlbench.errors import CannotDo, DataError

# Texts that are run at a time: for scores, and for attention, whose weights take more memory.
SCORED, ATTENDED = 32, 4


class Run(NamedTuple):
    """The output of a model for some texts; its first position stands after `before` ids.

    `last` int64 [texts, count] are the places, in the logits, of the last ids of each row.
    """

    texts: list[int]
    output: Any
    before: int
    last: Tensor


class AskedImage:
    """An image and texts: prompts that differ only in their tails, after the image.

    `head` has the ids up to the tail, `image` the numbers of image tokens among them. Where what
    the model keeps of the image depends on the text, prompts cannot share it: `shared` is False.
    """

    def __init__(
        self, model: Any, chat: Chat, image: Image, texts: Sequence[str], *, shared: bool
    ) -> None:
        inputs, length = chat.read(image, texts[0])
        self.tails = [chat.tail(text) for text in texts]
        ids = inputs["input_ids"][0].tolist()
        self.head: list[int] = ids[: len(ids) - length]
        self.inputs = {name: _moved(value, model) for name, value in inputs.items()}
        token = model.config.image_token_id
        self.image = [i for i, one in enumerate(self.head) if one == token]
        self._model = model
        self._shared = shared
        self._name = chat.name

    def pixels(self) -> dict[str, Any]:
        """Return the inputs that are the image."""
        return {name: value for name, value in self.inputs.items() if name not in PER_TOKEN}

    def check_length(self, context: int, more: int = 0) -> None:
        """Raise DataError where a prompt and `more` ids are longer than `context` ids."""
        longest = max(len(tail.ids) for tail in self.tails) + more
        excess = len(self.head) + longest - context
        if excess > 0:
            found = f"{len(self.head)} up to the end of the image and {longest} after it"
            way = f"cut texts by {excess} tokens with --model-args text_limit=N"
            raise DataError(
                f"{self._name} reads {context} tokens, not {found}; {way}, or use smaller images"
            )

    def mean_logs(self, answers: Sequence[Answer]) -> Tensor:
        """Return the mean log probability of each answer's ids, float32 [answers, texts]."""
        found = torch.empty(len(answers), len(self.tails), device=self._model.device)
        # Answers of one token are read from the same run.
        runs: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for i, answer in enumerate(answers):
            runs.setdefault((answer.replaced, tuple(answer.ids[:-1])), []).append(i)
        for (replaced, given), asked in runs.items():
            rows = [[*tail.ids[: len(tail.ids) - replaced], *given] for tail in self.tails]
            shared = min(map(len, rows)) - len(given) - 1
            for run in self.run(rows, shared, SCORED, len(given) + 1):
                logits = run.output.logits.float()
                last = run.last.to(logits.device)[..., None].expand(-1, -1, logits.shape[-1])
                logs = logits.gather(1, last).log_softmax(-1)
                for i in asked:
                    ids = torch.tensor(answers[i].ids, device=logs.device)
                    of_ids = logs.gather(2, ids.expand(len(logs), -1)[..., None])
                    found[i, run.texts] = of_ids.mean((1, 2))
        return found

    def attention(self) -> list[Tensor]:
        """Return the attention of each text's own tokens to the head, [layers, heads, T, head].

        Columns that have left the window of a layer are 0.
        """
        owns = [[i for i, span in enumerate(tail.spans) if span] for tail in self.tails]
        firsts, ends = [own[0] if own else 0 for own in owns], [own[-1:] or [0] for own in owns]
        rows = [tail.ids[: end[0] + 1] for tail, end in zip(self.tails, ends, strict=True)]
        found: list[Tensor] = []
        with eager(self._model):
            for run in self.run(rows, min(firsts), ATTENDED, output_attentions=True):
                for i, text in enumerate(run.texts):
                    at = torch.tensor(owns[text], dtype=torch.long) + len(self.head) - run.before
                    layers = [layer for layer in run.output.attentions if layer is not None]
                    found.append(torch.stack([self._seen(layer[i], at, run) for layer in layers]))
        return found

    def _seen(self, layer: Tensor, at: Tensor, run: Run) -> Tensor:
        """Return the weights [heads, T, head] at some places of a layer's [heads, Q, K]."""
        gone = run.before + layer.shape[1] - layer.shape[2]
        rows = layer[:, at.to(layer.device), : max(len(self.head) - gone, 0)].float()
        return torch.nn.functional.pad(rows, (len(self.head) - rows.shape[2], 0))

    def run(
        self,
        rows: Sequence[Sequence[int]],
        shared: int,
        at_once: int,
        count: int = 1,
        **options: Any,
    ) -> Iterator[Run]:
        """Run each text's row of ids after the head, for the logits of its last `count` ids.

        What all rows begin with, up to `shared` ids, runs once and without the `options`.
        """
        if not self._shared:
            for i, row in enumerate(rows):
                output = self._model(**self._whole(row), logits_to_keep=count, **options)
                yield Run([i], output, 0, torch.arange(count)[None])
            return
        same = min(common_run(rows), shared)
        prefix = run_prefix(self._model, self.inputs, len(self.head) + same)
        for texts in torch.split(torch.arange(len(rows)), at_once):
            part = [rows[i][same:] for i in texts.tolist()]
            at = torch.tensor([[len(row) - count] for row in part]) + torch.arange(count)
            wanted = torch.unique(at)
            keep = {"logits_to_keep": wanted.to(self._model.device)}
            output = continue_rows(self._model, prefix, part, **keep, **options)
            yield Run(texts.tolist(), output, prefix.length, torch.searchsorted(wanted, at))

    def _whole(self, row: Sequence[int]) -> dict[str, Any]:
        """Return the inputs of a whole pass. Raises CannotDo for one of unknown shape."""
        size = self.inputs["input_ids"].shape[1]
        ids = torch.tensor([[*self.head, *row]], device=self._model.device)
        given = self.pixels() | {"input_ids": ids}
        for name, value in self.pixels().items():
            if isinstance(value, Tensor) and value.ndim > 1 and value.shape[1] == size:
                raise CannotDo(f"{self._name} takes {name} for each token of a prompt")
        for name in self.inputs.keys() & {*PER_TOKEN} - {"input_ids"}:
            fill = torch.full_like(ids, int(name == "attention_mask"))
            fill[:, : len(self.head)] = self.inputs[name][:, : len(self.head)]
            given[name] = fill
        return given


def _moved(value: Any, model: Any) -> Any:
    """Return a tensor on the model's device, in its dtype where it is pixels."""
    if not isinstance(value, Tensor):
        return value
    return value.to(model.device, model.dtype if value.is_floating_point() else value.dtype)


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """Let the language model return its attention weights, which SDPA does not."""
    decoder = model.get_decoder()
    before = decoder.config._attn_implementation  # noqa: SLF001 - it has no other name
    decoder.set_attn_implementation("eager")
    try:
        yield
    finally:
        decoder.set_attn_implementation(before)
