"""tiny-bert: a BERT trained to fill masked words of captions and questions (arXiv:1810.04805).

Section 3.1 there, without next-sentence prediction: as RoBERTa (arXiv:1907.11692, section 4.2) it
reads whole documents, and each is masked anew whenever it is drawn. A document is the captions of
an image or the questions of another, so that no question is ever read beside its image's captions.
Half of the steps read single sentences, as probes do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig, BertForMaskedLM

from tiny import words
from tiny.training import Batch, Plan, Training, train
from tiny.world import World, other_questions

# Tokens of the longest text, special ones included: regions, a caption and a question.
POSITIONS = 64

SHAPE = {
    "hidden_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "max_position_embeddings": POSITIONS,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}

# Of the tokens this share is to be filled in: 80 % masked, 10 % another token, 10 % left.
SHARE, MASKED, REPLACED = 0.15, 0.8, 0.1

# The share of steps that read single sentences.
ALONE = 0.5

# The documents of a text: three of five sentences fill it.
DOCUMENTS, SENTENCES = 3, 5

# Token ids of the sentences of each document.
Documents = Sequence[Sequence[Sequence[int]]]


def captions(world: World) -> list[str]:
    """Return all captions of a split, of both configurations."""
    return [caption for part in world[:2] for five in part.captions for caption in five]


def train_bert(world: World, folder: Path, plan: Plan) -> Training:
    """Train on captions of both configurations and questions of other images, write the folder."""
    texts = [five for part in world[:2] for five in part.captions]
    texts += other_questions()
    tokenizer = words.learn(chain.from_iterable(texts), folder, length=POSITIONS)
    documents = [tokenizer(five, add_special_tokens=False).input_ids for five in texts]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(plan.seed)
        model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **SHAPE))
    loss_of = partial(_loss, model, documents, len(tokenizer))
    told = train("tiny-bert", model, loss_of, len(documents), plan)
    model.half().save_pretrained(folder)
    return told


def encode(tokenizer: Any, texts: list[str]) -> Tensor:
    """Return the tokens of texts, int64 [N, T], padded."""
    options = {"padding": True, "truncation": True, "max_length": words.LENGTH}
    tokens: Tensor = tokenizer(texts, return_tensors="pt", **options).input_ids
    return tokens


def draw(documents: Documents, batch: Batch) -> Tensor:
    """Return texts, int64 [B, T], padded: a sentence of each document, or whole documents.

    The documents of a text are the row's and others, their sentences in a drawn order; they fill
    all positions, and what is longer is cut.
    """
    others = (len(batch.rows), DOCUMENTS - 1)
    drawn = torch.randint(len(documents), others, generator=batch.rng)
    picked = torch.cat([batch.rows[:, None], drawn], 1)
    order = torch.rand(*picked.shape, SENTENCES, generator=batch.rng).argsort(-1)
    if torch.rand((), generator=batch.rng) < ALONE:
        picked, order = picked[:, :1], order[:, :1, :1]
    texts = []
    for numbers, places in zip(picked.tolist(), order.tolist(), strict=True):
        text = [words.START]
        for number, own in zip(numbers, places, strict=True):
            sentences = [documents[number][place] for place in own]
            text += [*chain.from_iterable(sentences), words.END]
        texts.append(torch.tensor(text[:POSITIONS]))
    return pad_sequence(texts, batch_first=True, padding_value=words.PAD)


def choose(tokens: Tensor, rng: torch.Generator) -> Tensor:
    """Return which tokens are to be filled in, bool [N, T]: none of the special ones."""
    drawn = torch.rand(tokens.shape, generator=rng) < SHARE
    return drawn & (tokens >= len(words.SPECIAL))


def _loss(model: Any, documents: Documents, size: int, batch: Batch) -> Tensor:
    """Return the loss at the tokens of a batch that are to be filled in."""
    own = draw(documents, batch)
    chosen = choose(own, batch.rng)
    fate = torch.rand(own.shape, generator=batch.rng)
    others = torch.randint(len(words.SPECIAL), size, own.shape, generator=batch.rng)
    seen = own.where(~chosen | (fate >= MASKED), torch.tensor(words.MASK))
    seen = seen.where(~chosen | (fate < MASKED) | (fate >= MASKED + REPLACED), others)
    states = model.bert(input_ids=seen, attention_mask=(own != words.PAD).long())
    return cross_entropy(model.cls(states.last_hidden_state[chosen]), own[chosen])
