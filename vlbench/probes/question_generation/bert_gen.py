"""BERT-gen: attention masks of an input X followed by a question, the network, and decoding.

True: the row attends to the column. Networks get masks as four-dimensional additive floats, the
only form that eager and SDPA attention of transformers both read correctly: with bool or 0/1 masks,
later tokens leak without an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax
from torch.nn.utils.rnn import pad_sequence

from vlbench.adapter_kit.hugging_face import cache_argument
from vlbench.errors import CannotDo

# Numbers per box: left, top, right, bottom.
BOX = 4

# Stand in for tokens of X: a region, and padding.
REGION, PADDING = -1, -2

# Logits that differ by at most this fraction of the largest are equal up to rounding.
ROUNDING = 1e-4


def left_to_right(valid: Tensor, tokens: int) -> Tensor:
    """Return the mask, bool [B, n + T, n + T], of X [B, n] and T tokens of a question.

    X attends to the tokens of X that are `valid`, bool [B, n]; a token of the question attends to
    these, the tokens before it, and itself.
    """
    batch, n = valid.shape
    sees = valid.new_zeros(batch, n + tokens, n + tokens)
    sees[:, :, :n] = valid[:, None]
    sees[:, n:, n:] = torch.ones_like(sees[0, n:, n:]).tril()
    return sees


def one_pass(valid: Tensor, tokens: int) -> Tensor:
    """Return the mask, bool [B, n + 2T - 1, n + 2T - 1], of X, y_1..y_T-1 and m_1..m_T.

    m_t has the position of y_t, which it predicts: it attends to X, y_1..y_t-1 and itself. No other
    token attends to m_t. The last y is predicted, but nothing is predicted from it.
    """
    batch, n = valid.shape
    masks = n + tokens - 1
    sees = valid.new_zeros(batch, masks + tokens, masks + tokens)
    sees[:, :masks, :masks] = left_to_right(valid, tokens - 1)
    sees[:, masks:, :n] = valid[:, None]
    before = torch.ones(tokens, tokens - 1, dtype=torch.bool, device=valid.device).tril(-1)
    sees[:, masks:, n:masks] = before
    sees[:, masks:, masks:] = torch.eye(tokens, dtype=torch.bool, device=valid.device)
    return sees


def additive(sees: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the additive mask [B, 1, rows, columns]: 0 or the lowest number of the dtype."""
    mask = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
    return mask.masked_fill(~sees, torch.finfo(dtype).min)[:, None]


class Source(NamedTuple):
    """The input that a question is generated from.

    `objects` are float32 [R, D + 4], a region's vector followed by its box as fractions of width
    and height; `caption` has tokens. One of them may be None.
    """

    objects: Tensor | None = None
    caption: Sequence[int] | None = None

    @property
    def length(self) -> int:
        """The number of tokens of X."""
        regions = 0 if self.objects is None else len(self.objects)
        words = 0 if self.caption is None else len(self.caption)
        return 1 + regions + words + (self.objects is not None and self.caption is not None)


class Example(NamedTuple):
    """The input, and the tokens of a question including its end."""

    source: Source
    question: Sequence[int]


class Marks(NamedTuple):
    """The special tokens that BERT-gen uses."""

    start: int
    separator: int
    mask: int
    end: int


class Inputs(NamedTuple):
    """Embedded tokens [B, S, E], their positions int64 [B, S], and the mask, bool [B, S, C].

    The columns C are cached keys followed by the tokens.
    """

    embedded: Tensor
    positions: Tensor
    sees: Tensor


class Prefix(NamedTuple):
    """Embedded X [B, n, E], padded, and which tokens are not padding, bool [B, n]."""

    embedded: Tensor
    valid: Tensor


def marks_of(tokenizer: Any) -> Marks:
    """Return the special tokens of a tokenizer. Raises CannotDo if any is absent."""
    start = _first(tokenizer.cls_token_id, tokenizer.bos_token_id)
    separator = _first(tokenizer.sep_token_id, tokenizer.eos_token_id)
    end = _first(tokenizer.eos_token_id, tokenizer.sep_token_id)
    named = {"[CLS]": start, "[SEP]": separator, "[MASK]": tokenizer.mask_token_id}
    lacking = [name for name, token in named.items() if token is None]
    if lacking:
        raise CannotDo(f"the tokenizer has no {' and no '.join(lacking)}, which BERT-gen needs")
    return Marks(start, separator, tokenizer.mask_token_id, end)


def _first(*tokens: int | None) -> Any:
    return next((token for token in tokens if token is not None), None)


class BertGen(nn.Module):
    """A masked language model of transformers with W, the projection of regions.

    `width` is the width of a region's vector; `rng` draws W, as PyTorch initialises a linear layer.
    Raises CannotDo for a module without learned positions, or a tokenizer without the special
    tokens.
    """

    def __init__(self, tokenizer: Any, module: Any, width: int, rng: torch.Generator) -> None:
        super().__init__()
        self.module, self.marks = module, marks_of(tokenizer)
        positions = getattr(module.base_model.embeddings, "position_embeddings", None)
        if not isinstance(positions, nn.Embedding):
            kind = type(module).__name__
            raise CannotDo(f"{kind} has no learned positions, which regions need")
        # RoBERTa reserves its first positions for padding.
        padding = positions.padding_idx
        self.first_position = 0 if padding is None else padding + 1
        self.limit = positions.num_embeddings - self.first_position
        words = module.get_input_embeddings().weight
        drawn = torch.empty(words.shape[1], width + BOX)
        bound = 1 / math.sqrt(width + BOX)
        self.projection = nn.Parameter(drawn.uniform_(-bound, bound, generator=rng).to(words))

    def read(self, sources: Sequence[Source]) -> Prefix:
        """Return the embedded X of each source, without positions."""
        rows = [self._tokens(source) for source in sources]
        device = self.projection.device
        tokens = pad_sequence([torch.tensor(row) for row in rows], True, PADDING).to(device)
        embedded: Tensor = self.module.get_input_embeddings()(tokens.clamp(min=0))
        objects = [source.objects for source in sources if source.objects is not None]
        if objects:
            projected = torch.cat(objects).to(self.projection) @ self.projection.T
            embedded = embedded.index_put(torch.where(tokens == REGION), projected)
        return Prefix(embedded, tokens != PADDING)

    def _tokens(self, source: Source) -> list[int]:
        """Return the tokens of X, REGION for a region."""
        objects, caption = source
        regions = [REGION] * (0 if objects is None else len(objects))
        both = objects is not None and caption is not None
        separator = [self.marks.separator] * both
        return [self.marks.start, *regions, *separator, *(caption or ())]

    def loss(self, examples: Sequence[Example]) -> Tensor:
        """Return the mean of -ln p(y_t | X, y_1..y_t-1) over all tokens of the questions."""
        return cross_entropy(*self._predictions(examples))

    def log_probabilities(self, examples: Sequence[Example]) -> list[Tensor]:
        """Return ln p(y_t | X, y_1..y_t-1) for the tokens of each question."""
        logits, targets = self._predictions(examples)
        log_p = log_softmax(logits, -1).gather(1, targets[:, None])[:, 0]
        return list(torch.split(log_p, [len(example.question) for example in examples]))

    def _predictions(self, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """Return logits [K, V] of all K tokens of the questions, in order, and the tokens [K]."""
        inputs, chosen = self.one_pass(examples)
        logits: Tensor = self.run(inputs, chosen).logits
        tokens = [token for example in examples for token in example.question]
        return logits, torch.tensor(tokens, device=logits.device)

    def one_pass(self, examples: Sequence[Example]) -> tuple[Inputs, Tensor]:
        """Return the inputs X, y_1..y_T-1, m_1..m_T, and which of them predict, bool [B, S]."""
        prefix = self.read([example.source for example in examples])
        n, device = prefix.valid.shape[1], prefix.valid.device
        lengths = torch.tensor([len(example.question) for example in examples], device=device)
        most = int(lengths.max())
        questions = [torch.tensor(example.question[:-1], dtype=torch.int64) for example in examples]
        tokens = torch.full((len(examples), 2 * most - 1), self.marks.mask, device=device)
        tokens[:, : most - 1] = pad_sequence(questions, True, self.marks.mask).to(device)
        embedded = torch.cat([prefix.embedded, self.module.get_input_embeddings()(tokens)], 1)
        steps = torch.arange(most, device=device)
        positions = self.positions(prefix, torch.cat([steps[:-1], steps]))
        chosen = torch.zeros(positions.shape, dtype=torch.bool, device=device)
        chosen[:, n + most - 1 :] = steps < lengths[:, None]
        return Inputs(embedded, positions, one_pass(prefix.valid, most)), chosen

    def positions(self, prefix: Prefix, steps: Tensor) -> Tensor:
        """Return the positions of X and of tokens `steps` [T] steps after it, [B, n + T]."""
        rows, n = prefix.valid.shape
        places = torch.arange(n, device=steps.device).expand(rows, n)
        # Padding has no position; 0 is a valid index of any table of positions.
        places = places.where(prefix.valid, 0)
        after = prefix.valid.sum(1, keepdim=True) + steps
        return self.first_position + torch.cat([places, after], 1)

    def run(self, inputs: Inputs, chosen: Any, **options: Any) -> Any:
        """Return the output of the module, with logits only of the `chosen` tokens.

        `chosen` indexes [B, S].
        """
        # The head is as expensive as several layers, and most tokens predict nothing.
        with self.module.base_model.register_forward_hook(partial(_keep, chosen)):
            return self.module(**self.arguments(inputs), **options)

    @staticmethod
    def arguments(inputs: Inputs) -> dict[str, Tensor]:
        """Return inputs as arguments of a module of transformers."""
        return {
            "inputs_embeds": inputs.embedded,
            "position_ids": inputs.positions,
            "attention_mask": additive(inputs.sees, inputs.embedded.dtype),
        }

    @torch.no_grad()
    def require_left_to_right(self) -> None:
        """Raise CannotDo if a later token of a question changes an earlier prediction.

        A module that reads four-dimensional masks differently would learn from the tokens to
        predict.
        """
        first, second, *_ = dict.fromkeys([self.marks.mask, self.marks.start, self.marks.end])
        source = Source(caption=[self.marks.separator])
        pair = [Example(source, [first, token, first]) for token in (first, second)]
        logits = self._predictions(pair)[0].view(2, 3, -1)
        change = (logits[0] - logits[1])[:2].abs().max()
        if not change <= ROUNDING * logits.abs().max():
            kind = type(self.module).__name__
            raise CannotDo(f"{kind} does not hide later tokens behind an attention mask")


def _keep(chosen: Any, _module: Any, _arguments: Any, output: Any) -> Any:
    output.last_hidden_state = output.last_hidden_state[chosen]
    return output


@torch.no_grad()
def greedy(
    network: BertGen, sources: Sequence[Source], longest: int, *, keep_keys: bool = True
) -> list[list[int]]:
    """Return the tokens of a question for each source, at most `longest`, without its end.

    Of equally probable tokens, the first is taken. If not `keep_keys`, each pass reads the whole
    input.
    """
    tokens: list[Tensor] = []
    ended = torch.zeros(len(sources), dtype=torch.bool, device=network.projection.device)
    passes = _Passes(network, sources, longest, keep_keys=keep_keys)
    while len(tokens) < longest and not ended.all():
        token = passes(tokens).argmax(-1)
        ended |= token == network.marks.end
        tokens.append(token)
    rows = torch.stack(tokens, 1).tolist() if tokens else [[] for _ in sources]
    end = network.marks.end
    return [row[: row.index(end)] if end in row else row for row in rows]


class _Passes:
    """Predicts the next token of a batch, step by step."""

    def __init__(
        self, network: BertGen, sources: Sequence[Source], longest: int, *, keep_keys: bool
    ) -> None:
        from transformers import DynamicCache  # noqa: PLC0415 - slow to import

        self._network = network
        self._prefix = network.read(sources)
        steps = torch.arange(longest, device=network.projection.device)
        self._positions = network.positions(self._prefix, steps)
        self._sees = left_to_right(self._prefix.valid, longest)
        self._kept: Any = DynamicCache() if keep_keys else None

    def __call__(self, words: Sequence[Tensor]) -> Tensor:
        """Return the logits [B, V] of the next token; `words` has one more token than before."""
        mask = torch.full_like(self._prefix.valid[:, 0], True).long() * self._network.marks.mask
        tokens = torch.stack([*words, mask], 1)
        embed = self._network.module.get_input_embeddings()
        length = self._prefix.valid.shape[1] + tokens.shape[1]
        if words and self._kept is not None:
            embedded, span = embed(tokens[:, -2:]), slice(length - 2, length)
        else:
            embedded = torch.cat([self._prefix.embedded, embed(tokens)], 1)
            span = slice(0, length)
        sees = self._sees[:, span, :length]
        inputs = Inputs(embedded, self._positions[:, span], sees)
        options = {} if self._kept is None else {cache_argument(): self._kept}
        logits: Tensor = self._network.run(inputs, (slice(None), -1), **options).logits
        self._keep(length)
        return logits

    def _keep(self, length: int) -> None:
        """Drop the keys of the [MASK]; keep none if the module has not filled the cache."""
        if self._kept is None:
            return
        if self._kept.get_seq_length() != length:
            self._kept = None
            return
        self._kept.crop(-1)
