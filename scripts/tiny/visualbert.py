"""tiny-visualbert: a VisualBERT that fills in words and judges captions (arXiv:1908.03557).

Departures, so that minutes teach words to find their regions: words for what things are and look
like are filled in more often than others, and more of them are replaced than BERT replaces, by such
words; most steps read one caption, as probes do, in place of two; only true captions are filled in.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import VisualBertConfig, VisualBertForPreTraining

from tiny import bert, words
from tiny.training import Batch, Plan, Training, train
from tiny.world import Examples, World
from vlbench.adapter_kit.regions import box_geometry, pad_regions
from vlbench.capabilities import Regions
from vlbench.data.scenes.world import CATEGORIES, COLOURS, NOUNS, SIZES, TEXTURES, plural

# Numbers of a proposal's vector, and those of its box that the adapter puts behind them.
WIDTH, BOX_NUMBERS = 64, 6

SHAPE = bert.SHAPE | {
    "num_hidden_layers": 2,
    "initializer_range": 0.05,
    "max_position_embeddings": 2 * words.LENGTH,
    "visual_embedding_dim": WIDTH + BOX_NUMBERS,
}

# Words for what a thing is or looks like.
LOOKS = {*NOUNS, *CATEGORIES, *map(plural, NOUNS + CATEGORIES), *COLOURS, *SIZES, *TEXTURES}

# The shares of tokens to be filled in, of those and of others; of these so many are masked, so many
# replaced, and the rest left.
LOOKS_SHARE, SHARE, MASKED, REPLACED = 0.4, 0.05, 0.5, 0.4

# The share of steps that read two captions, and of captions that may be false and are true.
TWO, TRUE = 0.1, 0.5


class Sight(NamedTuple):
    """The regions of N images: numbers [N, R, WIDTH + BOX_NUMBERS], mask [N, R]."""

    numbers: Tensor
    mask: Tensor


class Lesson(NamedTuple):
    """Token ids of each image's captions, what is seen there, and each token's share, [V]."""

    captions: list[list[list[int]]]
    sight: Sight
    shares: Tensor


class Texts(NamedTuple):
    """Token ids and types int64 [B, T]; `true` bool [B]: the last caption is the image's own."""

    ids: Tensor
    types: Tensor
    true: Tensor


def train_visualbert(world: World, folder: Path, plan: Plan) -> Training:
    """Train on the captions and proposals of `scenes`, write the folder."""
    tokenizer = words.learn(bert.captions(world), folder)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(plan.seed)
        model = VisualBertForPreTraining(VisualBertConfig(vocab_size=len(tokenizer), **SHAPE))
    loss_of = partial(_loss, model, read(tokenizer, world.scenes))
    told = train("tiny-visualbert", model, loss_of, len(world.scenes.captions), plan)
    model.half().save_pretrained(folder)
    return told


def read(tokenizer: Any, examples: Examples) -> Lesson:
    """Return what is learnt from."""
    captions = [tokenizer(c, add_special_tokens=False).input_ids for c in examples.captions]
    shares = torch.full((len(tokenizer),), SHARE)
    shares[[i for word, i in tokenizer.get_vocab().items() if word in LOOKS]] = LOOKS_SHARE
    shares[: len(words.SPECIAL)] = 0
    return Lesson(captions, sight(examples.regions), shares)


def sight(regions: list[Regions]) -> Sight:
    """Return regions as the adapter shows them to the model."""
    batch = pad_regions(regions, [WIDTH], torch.device("cpu"))
    boxes = box_geometry(batch.corners, BOX_NUMBERS)
    return Sight(torch.cat([batch.vectors, boxes], -1), batch.mask)


def inputs(ids: Tensor, types: Tensor, seen: Sight, rows: Tensor) -> dict[str, Tensor]:
    """Return what the model takes: texts and the regions of these rows."""
    mask = seen.mask[rows, : int(seen.mask[rows].sum(1).max())]
    return {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": (ids != words.PAD).long(),
        "visual_embeds": seen.numbers[rows, : mask.shape[1]],
        "visual_attention_mask": mask,
        "visual_token_type_ids": torch.zeros_like(mask),
    }


def draw(lesson: Lesson, batch: Batch) -> Texts:
    """Return one caption for each image, true or another's; or a true one and then such a one."""
    count, rng = len(batch.rows), batch.rng
    two = bool(torch.rand((), generator=rng) < TWO)
    true = torch.rand(count, generator=rng) < TRUE
    others = torch.randint(len(lesson.captions), (count,), generator=rng)
    order = torch.rand(count, len(lesson.captions[0]), generator=rng).argsort(1).tolist()
    ids, types = [], []
    for row, source, places in zip(
        batch.rows.tolist(), batch.rows.where(true, others).tolist(), order, strict=True
    ):
        first = [*lesson.captions[row][places[0]], words.END] if two else []
        last = [*lesson.captions[source][places[1]], words.END]
        ids.append(torch.tensor([words.START, *first, *last]))
        types.append(torch.tensor([0] * (1 + len(first)) + [int(two)] * len(last)))
    return Texts(pad_sequence(ids, batch_first=True), pad_sequence(types, batch_first=True), true)


def hide(ids: Tensor, shares: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return tokens of which some are masked or replaced, and which are to be filled in, [B, T]."""
    chosen = torch.rand(ids.shape, generator=rng) < shares[ids]
    fate = torch.rand(ids.shape, generator=rng)
    any_ = torch.randint(len(words.SPECIAL), len(shares), ids.shape, generator=rng)
    looks = (shares == LOOKS_SHARE).nonzero()[:, 0]
    alike = looks[torch.randint(len(looks), ids.shape, generator=rng)]
    others = alike.where(shares[ids] == LOOKS_SHARE, any_)
    seen = torch.where(chosen & (fate < MASKED + REPLACED), others, ids)
    return torch.where(chosen & (fate < MASKED), words.MASK, seen), chosen


def _loss(model: Any, lesson: Lesson, batch: Batch) -> Tensor:
    """Return the loss at the tokens to be filled in plus that of judging the last caption."""
    texts = draw(lesson, batch)
    seen, chosen = hide(texts.ids, lesson.shares, batch.rng)
    output = model.visual_bert(**inputs(seen, texts.types, lesson.sight, batch.rows))
    chosen &= texts.true[:, None] | (texts.types < texts.types.max())
    states = output.last_hidden_state[:, : chosen.shape[1]][chosen]
    filled = cross_entropy(model.cls.predictions(states), texts.ids[chosen])
    # Label 0 is a match.
    judged = model.cls.seq_relationship(output.pooler_output)
    return filled + cross_entropy(judged, (~texts.true).long())
