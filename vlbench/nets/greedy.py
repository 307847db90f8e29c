"""Greedy decoding of BERT-gen: the most probable token in the place of a [MASK], one by one.

Keys and values of X and of the tokens said do not change when more are said: a module that fills a
`DynamicCache` computes them once, and each pass reads the last token said and the next [MASK]. One
that does not, such as DistilBERT, reads everything in each pass, and asks the same questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vlbench.nets.bert_gen import BertGen, Inputs, Source
from vlbench.nets.masks import left_to_right


@torch.no_grad()
def greedy(
    network: BertGen, sources: Sequence[Source], longest: int, *, keep_keys: bool = True
) -> list[list[int]]:
    """Return the tokens of a question of each source, at most `longest`, without its end.

    The first of equally probable tokens is taken. Without `keep_keys`, each pass reads everything.
    """
    said: list[Tensor] = []
    ended = torch.zeros(len(sources), dtype=torch.bool, device=network.projection.device)
    passes = _Passes(network, sources, longest, keep_keys=keep_keys)
    while len(said) < longest and not ended.all():
        token = passes(said).argmax(-1)
        ended |= token == network.marks.end
        said.append(token)
    rows = torch.stack(said, 1).tolist() if said else [[] for _ in sources]
    return [_before(row, network.marks.end) for row in rows]


def _before(tokens: Sequence[int], end: int) -> list[int]:
    return list(tokens[: tokens.index(end)] if end in tokens else tokens)


class _Passes:
    """Predicts the next token of a batch, again and again."""

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

    def __call__(self, said: Sequence[Tensor]) -> Tensor:
        """Return the logits [B, V] of the token after those said, of which there is one more."""
        mask = torch.full_like(self._prefix.valid[:, 0], True).long() * self._network.marks.mask
        tokens = torch.stack([*said, mask], 1)
        embed = self._network.module.get_input_embeddings()
        length = self._prefix.valid.shape[1] + tokens.shape[1]
        if said and self._kept is not None:
            embedded, own = embed(tokens[:, -2:]), slice(length - 2, length)
        else:
            embedded = torch.cat([self._prefix.embedded, embed(tokens)], 1)
            own = slice(0, length)
        sees = self._sees[:, own, :length]
        inputs = Inputs(embedded, self._positions[:, own], sees)
        options = {} if self._kept is None else {"past_key_values": self._kept}
        logits: Tensor = self._network.run(inputs, (slice(None), -1), **options).logits
        self._keep(length)
        return logits

    def _keep(self, length: int) -> None:
        """Forget the keys of the [MASK]; keep none where the module has not filled the cache."""
        if self._kept is None:
            return
        if self._kept.get_seq_length() != length:
            self._kept = None
            return
        self._kept.crop(-1)
