"""tiny-bert: a BERT trained to fill masked words of captions (arXiv:1810.04805, section 3.1).

Without next-sentence prediction, and each caption is masked anew whenever it is drawn.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM

from tiny import words
from tiny.training import Batch, Plan, Training, train
from tiny.world import World

SHAPE = {
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": words.LENGTH,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}

# Of the tokens this share is to be filled in: 80 % masked, 10 % another token, 10 % left.
SHARE, MASKED, REPLACED = 0.15, 0.8, 0.1


def captions(world: World) -> list[str]:
    """Return all captions of a split, of both configurations."""
    return [caption for part in world[:2] for five in part.captions for caption in five]


def train_bert(world: World, folder: Path, plan: Plan) -> Training:
    """Train on the captions of both configurations, write the folder."""
    texts = captions(world)
    tokenizer = words.learn(texts, folder)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(plan.seed)
        model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **SHAPE))
    tokens = encode(tokenizer, texts)
    loss_of = partial(_loss, model, tokens, len(tokenizer))
    told = train("tiny-bert", model, loss_of, len(tokens), plan)
    model.half().save_pretrained(folder)
    return told


def encode(tokenizer: Any, texts: list[str]) -> Tensor:
    """Return the tokens of texts, int64 [N, T], padded."""
    options = {"padding": True, "truncation": True, "max_length": words.LENGTH}
    tokens: Tensor = tokenizer(texts, return_tensors="pt", **options).input_ids
    return tokens


def choose(tokens: Tensor, rng: torch.Generator) -> Tensor:
    """Return which tokens are to be filled in, bool [N, T]: none of the special ones."""
    drawn = torch.rand(tokens.shape, generator=rng) < SHARE
    return drawn & (tokens >= len(words.SPECIAL))


def _loss(model: Any, tokens: Tensor, size: int, batch: Batch) -> Tensor:
    """Return the loss at the tokens of a batch that are to be filled in."""
    own = tokens[batch.rows]
    own = own[:, : int((own != words.PAD).sum(1).max())]
    chosen = choose(own, batch.rng)
    fate = torch.rand(own.shape, generator=batch.rng)
    others = torch.randint(len(words.SPECIAL), size, own.shape, generator=batch.rng)
    seen = own.where(~chosen | (fate >= MASKED), torch.tensor(words.MASK))
    seen = seen.where(~chosen | (fate < MASKED) | (fate >= MASKED + REPLACED), others)
    states = model.bert(input_ids=seen, attention_mask=(own != words.PAD).long())
    return cross_entropy(model.cls(states.last_hidden_state[chosen]), own[chosen])
