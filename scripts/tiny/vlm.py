"""tiny-vlm: FastVLM (arXiv:2412.13303) with tiny-rn and a small Llama, to judge and write captions.

Departures, for the time it takes: all parts learn together; the texts of an image are read side by
side after the same image tokens; where a caption is judged, the model also
answers after each word whether the image has what the word says; and the token of an image where a
thing has its centre is taught the words for that thing.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from tokenizers import processors
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    CLIPImageProcessor,
    FastVlmConfig,
    FastVlmForConditionalGeneration,
    LlavaProcessor,
)

from tiny import cnn, foils, words
from tiny.training import Batch, Plan, Training, train
from tiny.world import Examples, Facts, World, both

SIZE, SIDE = 64, 8
TOKENS = SIDE * SIDE
IMAGE, YES, NO, DESCRIBE = "<image>", "yes", "no", "describe"
QUESTION = "{} ?"
MEAN, STD = 0.5, 0.25
CHAT = (
    "{% for m in messages %}{% if loop.first %}[CLS]{% endif %}{% for c in m.content %}"
    "{% if c.type == 'image' %}<image>{% else %}{{ c.text }}{% endif %}{% endfor %}[SEP]"
    "{% endfor %}"
)
# tiny-rn without its last three strides, so that it sees 8 x 8 places.
VISION = {
    "model_type": "timm_wrapper",
    "architecture": cnn.ARCHITECTURE,
    "model_args": {**cnn.SHAPE, "output_stride": 8},
    "hidden_size": cnn.SHAPE["channels"][-1],
    "do_pooling": False,
}
SPREAD = 0.1
TEXT = {
    "model_type": "llama",
    "hidden_size": 96,
    "intermediate_size": 192,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
    # The library's 0.02 is for widths near 768.
    "initializer_range": SPREAD,
    "bos_token_id": words.START,
    "eos_token_id": words.END,
    "pad_token_id": words.PAD,
}

# Of each image at a step: true captions to judge, false ones, captions of others, and to write.
TRUE, FALSE, OTHERS, WRITTEN = 2, 2, 1, 1
KINDS = ("noun", "noun", "attribute", "attribute", "order", "place")

# What `cross_entropy` leaves out.
UNTAUGHT = -100


class Texts(NamedTuple):
    """Texts after an image: ids int64 [B, K, T], and what is to follow them, as in `Learnt`."""

    ids: Tensor
    targets: Tensor


class Learnt(NamedTuple):
    """A text as ids, and what is to follow each id, UNTAUGHT where nothing is."""

    ids: list[int]
    targets: list[int]


class Words(dict[str, list[int]]):
    """The ids of words, each tokenised when it is first met."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, word: str) -> list[int]:
        """Tokenise a word."""
        self[word] = self._tokenizer(word, add_special_tokens=False).input_ids
        return self[word]


class Things(NamedTuple):
    """Things: the image and the image token of each, int64 [M], and the shares of words, [M, V]."""

    images: Tensor
    tokens: Tensor
    shares: Tensor


class Lesson(NamedTuple):
    """What is learnt from: images with facts, their captions, ids of words, and the things."""

    examples: Examples
    captions: list[list[foils.Caption]]
    words: Words
    things: Things


def train_vlm(world: World, folder: Path, plan: Plan) -> Training:
    """Train on the captions of both configurations, write the folder."""
    examples = both(world)
    processor = read_with([c for five in examples.captions for c in five], folder)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(plan.seed)
        model = build(processor.tokenizer)
    start_from(model, folder.parent / "rn")
    loss_of = partial(loss, model, lesson(processor.tokenizer, examples))
    told = train("tiny-vlm", model, loss_of, len(examples.images), plan)
    model.half().save_pretrained(folder)
    processor.save_pretrained(folder)
    return told


def read_with(captions: list[str], folder: Path) -> LlavaProcessor:
    """Return a processor of images and of the words of the captions."""
    tokenizer = words.learn([*captions, *[f"{YES} {NO} {DESCRIBE} ?"] * words.OFTEN], folder)
    # Texts begin and end as the chat template says.
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
    tokenizer.add_tokens([IMAGE], special_tokens=True)
    tokenizer.eos_token = words.SPECIAL[words.END]
    tokenizer.model_max_length = TEXT["max_position_embeddings"]
    side = {"height": SIZE, "width": SIZE}
    return LlavaProcessor(
        CLIPImageProcessor(
            size=side, do_center_crop=False, image_mean=[MEAN] * 3, image_std=[STD] * 3
        ),
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="full",
        image_token=IMAGE,
        chat_template=CHAT,
    )


def build(tokenizer: Any) -> Any:
    """Return a fresh model."""
    image = tokenizer.convert_tokens_to_ids(IMAGE)
    config = FastVlmConfig(
        vision_config=VISION,
        text_config=TEXT | {"vocab_size": len(tokenizer)},
        image_token_index=image,
        image_seq_length=TOKENS,
        tie_word_embeddings=True,
        initializer_range=SPREAD,
    )
    return FastVlmForConditionalGeneration(config)


def start_from(model: Any, folder: Path) -> None:
    """Give the vision tower the weights of tiny-rn, less those of its classifier."""
    state = load_file(folder / "model.safetensors")
    kept = {key: value.float() for key, value in state.items() if not key.startswith("fc.")}
    model.model.vision_tower.timm_model.load_state_dict(kept)
    model.model.vision_tower.to(memory_format=torch.channels_last)


def lesson(tokenizer: Any, examples: Examples) -> Lesson:
    """Return what is learnt from."""
    captions = [foils.captions(facts) for facts in examples.facts]
    known = Words(tokenizer)
    return Lesson(examples, captions, known, things_of(examples, known, len(tokenizer)))


def things_of(examples: Examples, known: Words, count: int) -> Things:
    """Return all things of images, with equal shares for the words that are one token."""
    images, tokens, shares = [], [], []
    for i, facts in enumerate(examples.facts):
        for words_of, (x, y) in zip(facts.things, facts.centres, strict=True):
            share = torch.zeros(count)
            share[[known[word][0] for word in words_of if len(known[word]) == 1]] = 1
            images.append(i)
            tokens.append(min(int(y * SIDE), SIDE - 1) * SIDE + min(int(x * SIDE), SIDE - 1))
            shares.append(share / share.sum())
    return Things(torch.tensor(images), torch.tensor(tokens), torch.stack(shares))


def draw(taught: Lesson, batch: Batch) -> Texts:
    """Return the texts of a batch's images: true ones, foils, those of others, and one to write."""
    rng = Random(int(torch.randint(1 << 62, (), generator=batch.rng)))  # noqa: S311 - no secret
    rows = batch.rows.tolist()
    found: list[Learnt] = []
    for row in rows:
        facts, captions = taught.examples.facts[row], taught.captions[row]
        own = rng.sample(captions, len(captions))
        made = [foils.FOILS[rng.choice(KINDS)](facts, one, rng) for one in own * 2]
        false = [one for one in made if one][:FALSE]
        while len(false) < FALSE + OTHERS:
            false.append(rng.choice(taught.captions[rng.choice(rows)]))
        found += [judged(taught.words, facts, one, true=True) for one in own[:TRUE]]
        found += [judged(taught.words, facts, one, true=False) for one in false]
        found.append(written(taught.words, own[-1]))
    return side_by_side(found, len(rows))


def side_by_side(found: list[Learnt], images: int) -> Texts:
    """Return the texts of so many images, as many of each, padded."""
    ids = pad_sequence([torch.tensor(one.ids) for one in found], batch_first=True)
    padding = {"batch_first": True, "padding_value": UNTAUGHT}
    targets = pad_sequence([torch.tensor(one.targets) for one in found], **padding)
    shape = (images, -1, ids.shape[1])
    return Texts(ids.view(shape), targets.view(shape))


def judged(known: Words, facts: Facts, caption: foils.Caption, *, true: bool) -> Learnt:
    """Return a question about a caption; what is learnt is the answer, and at each word its own.

    A word's own answer is whether the image has it; of most words that cannot be said.
    """
    answers = {True: known[YES], False: known[NO], None: UNTAUGHT}
    ids, targets = [], []
    for word, seen in zip(caption.words, foils.seen(facts, caption), strict=True):
        tokens = known[word]
        ids += tokens
        targets += [UNTAUGHT] * (len(tokens) - 1)
        targets.append(answers[seen][0] if seen is not None else UNTAUGHT)
    return Learnt([*ids, *known["?"], words.END], [*targets, UNTAUGHT, answers[true][0]])


def written(known: Words, caption: foils.Caption) -> Learnt:
    """Return a caption that is to be written, word by word."""
    asked = [*known[DESCRIBE], *known["?"]]
    text = [token for word in caption.words for token in known[word]]
    return Learnt([*asked, words.END, *text], [UNTAUGHT] * len(asked) + [*text, words.END])


def look(model: Any, images: Tensor) -> Tensor:
    """Return what the vision encoder makes of images uint8 [N, 3, 64, 64], [N, TOKENS, D]."""
    pixels = ((images.float() / 255 - MEAN) / STD).contiguous(memory_format=torch.channels_last)
    found: Tensor = model.model.vision_tower(pixels).last_hidden_state
    return found.flatten(2).transpose(1, 2)


def states(model: Any, seen: Tensor, ids: Tensor) -> Tensor:
    """Return the last hidden states [B, K, T, D] of texts [B, K, T] read side by side.

    `seen` [B, TOKENS, D] is what the vision encoder made of each image.
    """
    inner = model.model
    images = inner.multi_modal_projector(seen)
    embed = inner.get_input_embeddings()
    count, many, length = ids.shape
    start = embed(torch.full((count, 1), words.START))
    sequence = torch.cat([start, images, embed(ids.flatten(1))], 1)
    head = 1 + TOKENS
    places = torch.arange(length).repeat(many) + head
    positions = torch.cat([torch.arange(head), places])
    branch = torch.cat([torch.full((head,), -1), torch.arange(many).repeat_interleave(length)])
    seen = (branch[None] == -1) | (branch[:, None] == branch[None])
    seen = seen & (positions[:, None] >= positions[None])
    mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    output = inner.language_model(
        inputs_embeds=sequence,
        attention_mask=mask[None, None].expand(count, 1, -1, -1),
        position_ids=positions[None].expand(count, -1),
        use_cache=False,
    )
    return output.last_hidden_state[:, head:].view(count, many, length, -1)


def loss(model: Any, taught: Lesson, batch: Batch) -> Tensor:
    """Return the loss of judging captions, plus that of judging words, plus that of writing."""
    texts, seen = draw(taught, batch), look(model, taught.examples.images[batch.rows])
    found = states(model, seen, texts.ids)
    ends = texts.ids == words.END
    ends[:, -WRITTEN:] = False
    writes = torch.zeros_like(ends)
    writes[:, -WRITTEN:] = True
    taught_at = texts.targets != UNTAUGHT
    parts = [
        cross_entropy(model.lm_head(found[at]), texts.targets[at])
        for at in (ends, taught_at & ~ends & ~writes, taught_at & writes)
    ]
    return torch.stack([*parts, naming(model, taught.things, seen, batch.rows)]).sum()


def naming(model: Any, things: Things, seen: Tensor, rows: Tensor) -> Tensor:
    """Return the loss of the words at the image tokens where things have their centres."""
    own, image = (things.images[:, None] == rows).nonzero(as_tuple=True)
    tokens = model.model.multi_modal_projector(seen[image, things.tokens[own]])
    logits = model.lm_head(model.model.language_model.norm(tokens))
    return cross_entropy(logits, things.shares[own])
