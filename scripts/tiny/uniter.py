"""tiny-uniter: a UNITER that judges whether a caption belongs to an image (arXiv:1909.11740).

The network is the published one; the training is not, so that minutes teach it to match: no word
or region is masked, and nothing is aligned by optimal transport. Words and regions first learn to
attend to each other by contrast between captions and images. Then the network judges true captions,
foils of them, and captions of other images, and at each layer the state of each word is asked what
the facts of the drawing say: is the named thing or look in the image, does the place hold, and
where is the thing. Foils of order and place come first, alone. Throughout, regions are named, and
before all else they are named alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import BertConfig

from tiny import bert, foils, sight, words
from tiny.foils import FOILS, MISPLACED, OPPOSITE, Caption
from tiny.training import Batch, Plan, Training, train
from tiny.world import Examples, Facts, World
from vlbench.adapter_kit.bert_ports import run_layers
from vlbench.adapter_kit.one_stream_ports import Inputs
from vlbench.adapter_kit.regions import RegionBatch, box_geometry
from vlbench.code.functions import load_object

ADAPTERS = [Path(__file__).resolve().parents[2] / "model_adapters"]
WEIGHTS = "model.safetensors"

# Corners, width, height and area of a box.
BOX_NUMBERS = 7

SHAPE = bert.SHAPE | {
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "initializer_range": 0.05,
    "img_dim": sight.WIDTH,
}

# The shares of the training until which regions are named alone, there is contrast alone, and there
# are foils of order alone.
NAMING, CONTRAST, ORDER = 0.3, 0.36, 0.46

# Where regions are named alone, so many times as many images are seen beside a step's own.
MORE = 3

# The weights of the losses beside that of judging: of the questions, of contrast, and of naming.
ASKED, KEPT, NAMED = 1.0, 0.3, 0.3

# What a state is asked: whether the word is seen, whether it is there, and where, (x, y).
QUESTIONS = 4
FAR = 20.0
UNASKED = float("nan")


class Text(NamedTuple):
    """A text beside an image, whether it is true, and the answers [4] of each of its words."""

    row: int
    words: Sequence[str]
    true: bool
    answers: Sequence[Sequence[float]]


class Lesson(NamedTuple):
    """What is known of each image, what is seen of it, and the tokens of every word."""

    facts: list[Facts]
    seen: sight.Sight
    spelling: dict[str, list[int]]


def inputs(ids: Tensor, regions: RegionBatch, mask: Tensor) -> Inputs:
    """Return what the network reads, of ids [N, T], regions, and a mask [N, T + R] of both."""
    return Inputs(ids, regions.vectors, box_geometry(regions.corners, BOX_NUMBERS), mask)


class Learner(nn.Module):
    """The network, `inputs` that it reads, and what only its training needs."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.network = load_object("uniter:Network", ADAPTERS)(config, ["itm_output"])
        for part in self.network.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=config.initializer_range)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)
        layers = range(config.num_hidden_layers)
        self.questions = nn.ModuleList(nn.Linear(config.hidden_size, QUESTIONS) for _ in layers)
        self.namer = sight.Namer(config.hidden_size)

    def apart(self, inputs: Any) -> tuple[Tensor, Tensor]:
        """Return the states of texts and of regions before the last layer, each read alone."""
        layers, length = self.network.uniter["encoder"]["layer"][:-1], inputs.ids.shape[1]
        embedded = self.network.embed(inputs)
        parts = zip(
            embedded.split([length, embedded.shape[1] - length], 1),
            inputs.mask.split([length, embedded.shape[1] - length], 1),
            strict=True,
        )
        text, regions = (run_layers(layers, *part).states[-1] for part in parts)
        return text, regions

    def name(self, seen: sight.Sight, rows: Tensor) -> Tensor:
        """Return the loss of naming the regions of images that are read alone."""
        regions = seen.show(rows)
        nothing = torch.full((len(rows), 1), words.START)
        mask = torch.cat([torch.ones_like(nothing), regions.mask], 1)
        _, states = self.apart(inputs(nothing, regions, mask))
        return self.namer(states, seen.names[rows, : states.shape[1]])


def train_uniter(world: World, folder: Path, plan: Plan) -> Training:
    """Train on the captions, proposals and facts of `scenes`, write the folder."""
    tokenizer = words.learn(bert.captions(world), folder)
    config = BertConfig(vocab_size=len(tokenizer), **SHAPE)
    # Only eager attention takes the mask of the network.
    config._attn_implementation = "eager"  # noqa: SLF001 - the library's own name for it
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(plan.seed)
        learner = Learner(config)
    lesson = read(tokenizer, world.scenes)
    loss_of = partial(_loss, learner, lesson)
    told = train("tiny-uniter", learner, loss_of, len(lesson.facts), plan)
    config.save_pretrained(folder)
    layer = learner.network.uniter["img_embeddings"].img_linear
    layer.weight.data, layer.bias.data = sight.fold(layer.weight.data, layer.bias.data)
    state = {key: value.half().contiguous() for key, value in learner.network.state_dict().items()}
    save_file(state, folder / WEIGHTS, {"format": "pt"})
    return told


def read(tokenizer: Any, examples: Examples) -> Lesson:
    """Return what is learnt from."""
    said = {word for one in examples.facts for caption in one.words for word in caption}
    known = sorted(said | foils.SINGULAR.keys() | foils.ALIKE.keys() | OPPOSITE.keys() | {"an"})
    spelling = {word: tokenizer(word, add_special_tokens=False).input_ids for word in known}
    return Lesson(examples.facts, sight.read(examples), spelling)


def draw(lesson: Lesson, rows: Iterable[int], rng: Random, kinds: Sequence[str]) -> list[Text]:
    """Return for each image a true caption, a foil of it, and a caption of another image.

    Of the kinds of foils the first is taken that one of the captions allows; where none does, the
    image has no foil.
    """
    texts = []
    for row in rows:
        facts = lesson.facts[row]
        own, wanted = foils.captions(facts), rng.sample(kinds, len(kinds))
        rng.shuffle(own)
        found = ((c, kind, FOILS[kind](facts, c, rng)) for kind in wanted for c in own)
        caption, kind, foil = next((f for f in found if f[2]), (own[0], "", None))
        texts.append(Text(row, caption.words, True, _answers(facts, caption, placed=True)))
        if foil:
            placed = {"noun": None, "attribute": True}.get(kind, False)
            texts.append(Text(row, foil.words, False, _answers(facts, foil, placed=placed)))
        other = rng.choice(foils.captions(rng.choice(lesson.facts)))
        texts.append(Text(row, other.words, False, _answers(facts, other, placed=None)))
    return texts


def _answers(facts: Facts, caption: Caption, *, placed: bool | None) -> list[list[float]]:
    """Return the answers of each word, UNASKED where there is none.

    `placed` says whether words for places are true. Where it is True, nouns are where they should
    be, so that it is known where.
    """
    answers = [[UNASKED] * QUESTIONS for _ in caption.words]
    for i, seen in enumerate(foils.seen(facts, caption)):
        if seen is not None:
            answers[i][0] = float(seen)
        if placed is not None and caption.words[i] in OPPOSITE:
            answers[i][1] = float(placed)
    for phrase in caption.phrases:
        if placed and len(phrase.boxes) == 1:
            answers[phrase.stop - 1][2:] = facts.centres[phrase.boxes[0]]
    return answers


def _loss(learner: Learner, lesson: Lesson, batch: Batch) -> Tensor:
    rng = Random(int(torch.randint(2**31, (), generator=batch.rng)))  # noqa: S311 - no secret
    rows = batch.rows.tolist()
    single = [Text(i, rng.choice(lesson.facts[i].words), True, []) for i in rows]
    if batch.done < NAMING:
        more = rng.choices(range(len(lesson.facts)), k=MORE * len(rows))
        return learner.name(lesson.seen, torch.tensor([*rows, *more]))
    contrast = _contrast(learner, _inputs(lesson, single))
    if batch.done < CONTRAST:
        return contrast + learner.name(lesson.seen, batch.rows)
    texts = draw(lesson, rows, rng, MISPLACED if batch.done < ORDER else tuple(FOILS))
    read = _inputs(lesson, texts)
    states = learner.network(read).states
    logits = learner.network.itm_output(learner.network.uniter["pooler"](states[-1]))
    true = torch.tensor([text.true for text in texts])
    # Label 1 is a match.
    judged = _balanced(logits[:, 1] - logits[:, 0], true.float())
    answers = _answers_of_tokens(lesson, texts)
    length = read.ids.shape[1]
    asked = [
        _asked(question(layer[:, :length]), answers)
        for question, layer in zip(learner.questions, states, strict=True)
    ]
    images = torch.tensor([text.row for text in texts])
    names = lesson.seen.names[images, : states[-2].shape[1] - length]
    named = learner.namer(states[-2][:, length:], names)
    return judged + ASKED * torch.stack(asked).mean() + KEPT * contrast + NAMED * named


def _contrast(learner: Learner, inputs: Any) -> Tensor:
    """Return the loss of telling N captions and N images apart, each caption its own image's.

    A caption fits an image by the sum, over its words, of the largest logit of their attention to a
    region, mean over the heads of the last layer, where text and regions have not met before.
    """
    text, regions = learner.apart(inputs)
    attention = learner.network.uniter["encoder"]["layer"][-1].attention.self
    asking, asked = attention.query(text), attention.key(regions)
    heads = attention.num_attention_heads
    logits = torch.einsum("atd,brd->atbr", asking, asked) / (asking.shape[-1] * heads) ** 0.5
    shown = inputs.mask[:, inputs.ids.shape[1] :]
    best = logits.masked_fill(shown[None, None] == 0, -torch.inf).amax(-1)
    fits = (best * (inputs.ids >= len(words.SPECIAL))[:, :, None]).sum(1)
    own = torch.arange(len(fits))
    return (cross_entropy(fits, own) + cross_entropy(fits.T, own)) / 2


def _asked(found: Tensor, answers: Tensor) -> Tensor:
    """Return the loss of answers [N, T, 4] by states; UNASKED ones do not count."""
    known = ~answers.isnan()
    yes = [_balanced(found[..., i][known[..., i]], answers[..., i][known[..., i]]) for i in (0, 1)]
    away = (found - answers)[..., 2:][known[..., 2:]] ** 2
    return yes[0] + yes[1] + FAR * away.sum() / max(1, len(away))


def _balanced(logits: Tensor, true: Tensor) -> Tensor:
    """Return the loss of logits [K] in which true and false have the same weight."""
    losses = binary_cross_entropy_with_logits(logits, true, reduction="none")
    sides = [losses[true == side] for side in (0, 1)]
    return torch.stack([side.sum() / max(1, len(side)) for side in sides]).mean()


def _inputs(lesson: Lesson, texts: Sequence[Text]) -> Any:
    """Return what the network reads: tokens and regions."""
    ids = pad_sequence(
        [torch.tensor([words.START, *_spelt(lesson, t), words.END]) for t in texts],
        batch_first=True,
    )
    regions = lesson.seen.show(torch.tensor([text.row for text in texts]))
    return inputs(ids, regions, torch.cat([(ids != words.PAD).long(), regions.mask], 1))


def _spelt(lesson: Lesson, text: Text) -> list[int]:
    return [token for word in text.words for token in lesson.spelling[word]]


def _answers_of_tokens(lesson: Lesson, texts: Sequence[Text]) -> Tensor:
    """Return the answers of each token, [N, T, 4]: those of its word."""
    blank = [UNASKED] * QUESTIONS
    rows = []
    for text in texts:
        pairs = zip(text.words, text.answers, strict=True)
        told = [answer for word, answer in pairs for _ in lesson.spelling[word]]
        rows.append(torch.tensor([blank, *told, blank]))
    return pad_sequence(rows, batch_first=True, padding_value=UNASKED)
