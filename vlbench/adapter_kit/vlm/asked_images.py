"""One image shown to a generative model, with several texts about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor

from vlbench.adapter_kit.cuts import Positions, decoder_layers, without
from vlbench.adapter_kit.vlm.image_tokens import LAYOUTS
from vlbench.adapter_kit.vlm.prompt_batches import (
    Batch,
    Head,
    OneByOne,
    PlainPrompt,
    Rows,
    Runner,
    SharedImage,
    SharedPrefix,
    states_of_prompts,
)
from vlbench.adapter_kit.vlm.prompts import (
    PER_TOKEN,
    AnswerIds,
    ChatTemplate,
    Prompt,
    Prompts,
    Tail,
    TooLongError,
    common_run,
)
from vlbench.capabilities import Cut
from vlbench.errors import CannotDo

# Model types that attend to a prompt in both directions.
PREFIX_LM = frozenset({"paligemma"})

# Tested model types: what they cache of an image does not depend on the text after it.
CAUSAL = frozenset(LAYOUTS) - PREFIX_LM

# The most texts per batch: for scores, and for attention, which takes more memory.
SCORED, ATTENDED = 32, 4


class Family(NamedTuple):
    """The prompt format, the runner of prompts, and the function that reads texts without image.

    `tokenizer` contains the tokenizer's options for texts without image.
    """

    form: Callable[[Any, str], Callable[[str], Prompt]]
    runner: type[Runner]
    states: Callable[[Any, Mapping[str, Tensor]], Any]
    tokenizer: Mapping[str, Any]


def family(kind: str) -> Family:
    """Return how to prompt models of a type; for an untested type each prompt runs alone."""
    if kind in PREFIX_LM:
        return Family(PlainPrompt, SharedImage, states_of_prompts, {"add_bos_token": True})
    return Family(ChatTemplate, SharedPrefix if kind in CAUSAL else OneByOne, _states, {})


def _states(model: Any, batch: Mapping[str, Tensor]) -> Any:
    """Return the output of the language model for texts, read from left to right."""
    return model.get_decoder()(**batch, output_hidden_states=True, use_cache=False)


class Row(NamedTuple):
    """The ids after the head: a prompt, then an answer of `answered` ids without its last id."""

    answered: int
    ids: tuple[int, ...]


class ImagePrompts:
    """An image and texts: prompts that differ only in their tails, after the image.

    `head` contains the ids before the tails, and `image` the indices of image tokens among them.
    Its passes run with the parts in `cut` removed.
    """

    def __init__(
        self,
        model: Any,
        prompts: Prompts,
        image: Image,
        texts: Sequence[str],
        runner: type[Runner],
        cut: Cut = Cut(),  # noqa: B008 - it cannot change
    ) -> None:
        inputs, length = prompts.read(image, texts[0])
        self.tails = [prompts.tail(text) for text in texts]
        ids = inputs["input_ids"][0].tolist()
        moved = {name: _move(value, model) for name, value in inputs.items()}
        wide = _as_wide(inputs)
        if wide:  # by chance, or with an entry per token: then also for a longer text
            longer, _ = prompts.read(image, f"{texts[0]} x")
            wide = [name for name in wide if name in _as_wide(longer)]
        self.head = Head(ids[: len(ids) - length], moved, prompts.name, wide)
        token = model.config.image_token_id
        self.image = [i for i, number in enumerate(self.head.ids) if number == token]
        self._model, self._cut = model, cut
        self.runner = runner(model, self.head, self._around)

    def check_length(self, context: int, more: int = 0, way: str = "") -> None:
        """Raise TooLongError if a prompt and `more` ids are longer than `context` ids.

        `way` is what to do; the default is to cut the texts.
        """
        begun, longest = len(self.head.ids), max(len(tail.ids) for tail in self.tails) + more
        excess = begun + longest - context
        if excess > 0:
            size = f"{begun} up to the end of the image and {longest} after it"
            way = way or f"cut texts by {excess} tokens with --model-args text_limit=N"
            raise TooLongError(
                f"the model reads {context} tokens, not {size}; {way}, or use smaller images"
            )

    def mean_logs(self, answers: Sequence[AnswerIds]) -> Tensor:
        """Return the mean log probability of each answer's ids, float64 [answers, texts].

        It is below 0 even if the probability rounds to 1.
        """
        texts = range(len(self.tails))
        sums = self.answer_logs([(text, answer) for answer in answers for text in texts])
        lengths = torch.tensor([len(answer.ids) for answer in answers])
        return sums.view(len(answers), len(self.tails)) / lengths[:, None]

    def answer_logs(self, pairs: Sequence[tuple[int, AnswerIds]]) -> Tensor:
        """Return the log-likelihood of each answer after a text's prompt, float64 [N].

        It is the sum over the answer's ids.
        """
        # Answers that differ only in their last id share a row.
        rows: dict[Row, list[int]] = {}
        for i, (text, answer) in enumerate(pairs):
            begun = self.tails[text].ids
            ids = (*begun[: len(begun) - answer.replaced], *answer.ids[:-1])
            rows.setdefault(Row(len(answer.ids), ids), []).append(i)
        sums = torch.empty(len(pairs), dtype=torch.float64)
        left = sorted(rows, key=lambda row: -row.answered)
        while left:
            # A row must have at least as many ids as logits are kept.
            kept = left[0].answered
            group = [row for row in left if len(row.ids) >= kept]
            left = [row for row in left if len(row.ids) < kept]
            for some, logits in self._last_logits(group, kept):
                # Answers in parts, each with the logits of its row.
                every = [(place, i) for place, row in enumerate(some) for i in rows[row]]
                for length in sorted({row.answered for row in some}):
                    alike = [pair for pair in every if some[pair[0]].answered == length]
                    for start in range(0, len(alike), SCORED):
                        places, answers = map(
                            list, zip(*alike[start : start + SCORED], strict=True)
                        )
                        tokens = torch.tensor([pairs[i][1].ids for i in answers])
                        ends = logits[places, kept - length :]
                        sums[answers] = log_likelihoods(ends, tokens.to(ends.device)).sum(1)
        return sums

    def _last_logits(self, rows: Sequence[Row], kept: int) -> Iterator[tuple[list[Row], Tensor]]:
        """Yield a few rows at a time with their last logits [rows, kept, V]."""
        ids, answered = [row.ids for row in rows], [row.answered - 1 for row in rows]
        at_once = max(SCORED // kept, ATTENDED)
        inputs = Rows(ids, min(map(len, ids)) - kept, at_once, kept, answered)
        for batch in self.runner.run(inputs):
            logits = batch.output.logits.float()
            last = batch.last.to(logits.device)[..., None].expand(-1, -1, logits.shape[-1])
            yield [rows[i] for i in batch.texts], logits.gather(1, last)

    def generate(self, most: int) -> list[int]:
        """Return the ids that the model writes after the first text, `most` at most, greedily.

        The checkpoint's settings of sampling, beams and penalties are ignored.
        """
        greedy = {"do_sample": False, "num_beams": 1, "repetition_penalty": 1.0}
        greedy |= {"no_repeat_ngram_size": 0, "max_new_tokens": most}
        length = self.head.inputs["input_ids"].shape[1]
        with self._around([length - 1]):
            written = self._model.generate(**self.head.inputs, **greedy)
        return list(written[0, length:].tolist())

    def attention(self) -> list[Tensor]:
        """Return the attention of each text's tokens to the head, [layers, heads, T, head].

        Columns outside a layer's attention window are 0.
        """
        owns = [[i for i, span in enumerate(tail.spans) if span] for tail in self.tails]
        firsts, ends = [own[0] if own else 0 for own in owns], [own[-1:] or [0] for own in owns]
        rows = [tail.ids for tail in self.tails]
        if self.runner.cuts:
            rows = [ids[: end[0] + 1] for ids, end in zip(rows, ends, strict=True)]
        answered = [len(ids) - len(tail.ids) for ids, tail in zip(rows, self.tails, strict=True)]
        weights: list[Tensor] = []
        begun = len(self.head.ids)
        with eager(self._model):
            some = Rows(rows, min(firsts), ATTENDED, answered=answered)
            for batch in self.runner.run(some, output_attentions=True):
                layers = [layer for layer in batch.output.attentions if layer is not None]
                for i, text in enumerate(batch.texts):
                    at = torch.tensor(owns[text], dtype=torch.long) + begun - batch.before
                    weights.append(
                        torch.stack([self._to_head(one[i], at, batch) for one in layers])
                    )
        return weights

    def _around(self, ends: Sequence[int]) -> AbstractContextManager[None]:
        layers = partial(decoder_layers, self._model.get_decoder(), self.head.name)
        return without(self._cut, layers, Positions(self.image, ends))

    def _to_head(self, layer: Tensor, at: Tensor, batch: Batch) -> Tensor:
        """Return the weights [heads, T, head] at some positions of a layer's [heads, Q, K]."""
        begun, gone = len(self.head.ids), batch.before + layer.shape[1] - layer.shape[2]
        rows = layer[:, at.to(layer.device), : max(begun - gone, 0)].float()
        return torch.nn.functional.pad(rows, (begun - rows.shape[2], 0))


class AskedAlone(ImagePrompts):
    """Prompts without an image; they share the ids before the texts."""

    def __init__(
        self,
        model: Any,
        prompts: Prompts,
        texts: Sequence[str],
        runner: type[Runner],
        cut: Cut = Cut(),  # noqa: B008 - it cannot change
    ) -> None:
        whole = [prompts.ids(text) for text in texts]
        if not common_run(whole):
            raise CannotDo(f"prompts of {prompts.name} without an image begin with the text")
        ids = torch.tensor([whole[0]], device=model.device)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        self.head = Head(whole[0][:1], inputs, prompts.name)
        self.tails = [Tail(ids[1:], []) for ids in whole]
        self.image = []
        self._model, self._cut = model, cut
        self.runner = runner(model, self.head, self._around)


def log_likelihoods(logits: Tensor, ids: Tensor) -> Tensor:
    """Return the log probability of one token at each position, float64 [N, L] on the CPU.

    `logits` are [N, L, V], `ids` int64 [N, L]. It is computed from the logit of the token against
    all others, so it shows how close to 1 a probability is even if log_softmax rounds to 0.
    """
    chosen = logits.gather(2, ids[..., None])[..., 0]
    others = logits.scatter(2, ids[..., None], -torch.inf).logsumexp(2)
    # On the CPU: not every device has float64.
    return -torch.nn.functional.softplus(others.cpu().double() - chosen.cpu().double())


def _as_wide(inputs: Mapping[str, Any]) -> list[str]:
    """Return the names of an image's inputs whose second dimension equals the number of ids."""
    size = inputs["input_ids"].shape[1]
    others = {name: value for name, value in inputs.items() if name not in PER_TOKEN}
    return [
        name
        for name, value in others.items()
        if isinstance(value, Tensor) and value.ndim > 1 and value.shape[1] == size
    ]


def _move(value: Any, model: Any) -> Any:
    """Return a tensor on the model's device, and in its dtype if it is floating point."""
    if not isinstance(value, Tensor):
        return value
    return value.to(model.device, model.dtype if value.is_floating_point() else value.dtype)


@contextmanager
def eager(model: Any) -> Iterator[None]:
    """Switch the language model to eager attention, which returns weights, unlike SDPA."""
    decoder = model.get_decoder()
    before = decoder.config._attn_implementation  # noqa: SLF001 - it has no other name
    decoder.set_attn_implementation("eager")
    try:
        yield
    finally:
        decoder.set_attn_implementation(before)
