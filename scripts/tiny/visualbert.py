"""tiny-visualbert: a VisualBERT that fills in words and judges captions (arXiv:1908.03557).

Departures, so that minutes teach words to find their regions: words for what things are and look
like are filled in more often than others, and more of them are replaced than BERT replaces, by such
words; most steps read one caption, as probes do, in place of two; only true captions are filled in;
regions are named, and before all else they are named alone.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import VisualBertConfig, VisualBertForPreTraining

from tiny import bert, sight, words
from tiny.training import Batch, Plan, Training, train
from tiny.world import Examples, World
from vlbench.adapter_kit.regions import RegionBatch, box_geometry
from vlbench.data.scenes.world import CATEGORIES, COLOURS, NOUNS, SIZES, TEXTURES, plural

# Numbers of a box that the adapter puts behind those of its pixels.
BOX_NUMBERS = 6

SHAPE = bert.SHAPE | {
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "initializer_range": 0.05,
    "max_position_embeddings": 2 * words.LENGTH,
    "visual_embedding_dim": sight.WIDTH + BOX_NUMBERS,
}

# Words for what a thing is or looks like.
LOOKS = {*NOUNS, *CATEGORIES, *map(plural, NOUNS + CATEGORIES), *COLOURS, *SIZES, *TEXTURES}

# The shares of tokens to be filled in, of those and of others; of these so many are masked, so many
# replaced, and the rest left.
LOOKS_SHARE, SHARE, MASKED, REPLACED = 0.4, 0.05, 0.5, 0.4

# The share of the training until which regions are named alone, for how many times as many images
# beside a step's own; and the weight of that loss later.
NAMING, MORE, NAMED = 0.25, 3, 0.3

# The share of steps that read two captions, and of captions that may be false and are true.
TWO, TRUE = 0.1, 0.5


class Lesson(NamedTuple):
    """Token ids of each image's captions, what is seen there, and each token's share, [V]."""

    captions: list[list[list[int]]]
    seen: sight.Sight
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
        learner = nn.ModuleList([model, sight.Namer(model.config.hidden_size)])
    loss_of = partial(_loss, learner, read(tokenizer, world.scenes))
    told = train("tiny-visualbert", learner, loss_of, len(world.scenes.captions), plan)
    layer = model.visual_bert.embeddings.visual_projection
    layer.weight.data, layer.bias.data = sight.fold(layer.weight.data, layer.bias.data)
    model.half().save_pretrained(folder)
    return told


def read(tokenizer: Any, examples: Examples) -> Lesson:
    """Return what is learnt from."""
    captions = [tokenizer(c, add_special_tokens=False).input_ids for c in examples.captions]
    shares = torch.full((len(tokenizer),), SHARE)
    shares[[i for word, i in tokenizer.get_vocab().items() if word in LOOKS]] = LOOKS_SHARE
    shares[: len(words.SPECIAL)] = 0
    return Lesson(captions, sight.read(examples), shares)


def inputs(ids: Tensor, types: Tensor, regions: RegionBatch) -> dict[str, Tensor]:
    """Return what the model takes: texts and, as the adapter shows them, regions."""
    boxes = box_geometry(regions.corners, BOX_NUMBERS)
    return {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": (ids != words.PAD).long(),
        "visual_embeds": torch.cat([regions.vectors, boxes], -1),
        "visual_attention_mask": regions.mask,
        "visual_token_type_ids": torch.zeros_like(regions.mask),
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


def _loss(learner: Any, lesson: Lesson, batch: Batch) -> Tensor:
    """Return the loss at the tokens to be filled in, of judging the last caption, and of naming."""
    if batch.done < NAMING:
        return _naming(learner, lesson, batch)
    (model, namer), texts = learner, draw(lesson, batch)
    seen, chosen = hide(texts.ids, lesson.shares, batch.rng)
    regions = lesson.seen.show(batch.rows)
    output = model.visual_bert(**inputs(seen, texts.types, regions))
    everything = output.last_hidden_state
    chosen &= texts.true[:, None] | (texts.types < texts.types.max())
    length = chosen.shape[1]
    filled = cross_entropy(model.cls.predictions(everything[:, :length][chosen]), texts.ids[chosen])
    # Label 0 is a match.
    judged = model.cls.seq_relationship(output.pooler_output)
    named = namer(everything[:, length:], lesson.seen.names[batch.rows, : regions.mask.shape[1]])
    return filled + cross_entropy(judged, (~texts.true).long()) + NAMED * named


def _naming(learner: Any, lesson: Lesson, batch: Batch) -> Tensor:
    """Return the loss of naming the regions of images that are read alone."""
    model, namer = learner
    count = MORE * len(batch.rows)
    more = torch.randint(len(lesson.captions), (count,), generator=batch.rng)
    rows = torch.cat([batch.rows, more])
    regions, nothing = lesson.seen.show(rows), torch.full((len(rows), 1), words.START)
    output = model.visual_bert(**inputs(nothing, torch.zeros_like(nothing), regions))
    states = output.last_hidden_state[:, 1:]
    return namer(states, lesson.seen.names[rows, : states.shape[1]])
