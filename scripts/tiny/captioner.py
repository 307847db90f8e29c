"""tiny-captioner: the FC captioner, taught by the captions of this world.

It sees the sum of an image's region vectors, and the features of tiny-rn and tiny-clip. Departures
from arXiv:2210.09550, for the time it takes and the little there is to see: standardised features,
images of other seeds beside those of train, a higher rate, larger batches, no dropout, no scheduled
sampling, forget gates that are open at first, and three stages. Taught by captions alone, it learns
how they are worded long before it learns what is in an image. So it first lists the nouns of an
image's captions, in random order; then it does this or says a caption, as the first word tells;
then it says captions alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tiny import world as worlds
from tiny.measures import ADAPTERS, Measure, share, vectors
from tiny.training import WINDOW, Plan, Training
from tiny.world import Examples, World
from vlbench.data.images import decode_image
from vlbench.data.scenes.world import CATEGORIES, NOUNS, plural
from vlbench.planning.functions import load_object
from vlbench.probes.captioning.captioner_files import (
    StoredCaptioner,
    draw_captioner,
    fold_scaling,
    label,
    learn_vocabulary,
    read_captioner,
    restore_captioner,
    spread,
    write_captioner,
)
from vlbench.probes.captioning.captioner_network import LONGEST, Sizes, greedy_captions
from vlbench.probes.captioning.captioner_training import (
    CrossEntropy,
    CrossEntropyTraining,
    Exam,
    Lesson,
    cider,
)

TINY = Path(__file__).resolve().parents[2] / "model_adapters" / "tiny"
CPU = torch.device("cpu")

HIDDEN = 128

# Images of other seeds for each of train, and how many of them are in memory at a time.
OTHERS, AT_ONCE = 14, 1000

# What is added to the bias of the forget gates at first: what was seen lasts for a caption.
OPEN = 4.0

# No caption begins with it: a list of nouns does.
LIST = "."

# What the captioner sees, in this order: `regions` first, as the captioning probes put it.
ENCODERS = ("tiny-rn", "tiny-clip")
ABOUT: dict[str, Any] = {"regions": "sum", "encoders": ENCODERS}

# A noun and its plural are one.
SINGULAR = {form: noun for noun in (*NOUNS, *CATEGORIES) for form in (noun, plural(noun))}


class Stage(NamedTuple):
    """A stage of the training: the texts of each image, and its share of all steps.

    `several` neighbouring texts of an image are learnt at a step. The rate begins at `rate` times
    the plan's and falls by the factor `decay` after every epoch.
    """

    texts: Sequence[Sequence[str]]
    several: int
    share: float
    rate: float
    decay: float


class Clock:
    """What a training takes, from when this was made."""

    def __init__(self) -> None:
        self._load = round(os.getloadavg()[0], 1)
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def told(self, losses: Sequence[float], batch: int) -> Training:
        """Return what so many steps took."""
        ends = [sum(part) / len(part) for part in (losses[:WINDOW], losses[-WINDOW:])]
        seconds = (time.perf_counter() - self._wall, time.process_time() - self._cpu)
        rounded = [round(one, 1) for one in seconds]
        return Training(len(losses), batch, *ends, *rounded, torch.get_num_threads(), self._load)


def train_captioner(world: World, folder: Path, plan: Plan) -> Training:
    """Train on `scenes` and on images of other seeds, choose on val of `scenes`, write the folder.

    The time that is told includes that of drawing those images.
    """
    clock = Clock()
    train, val = world.scenes, worlds.read("val").scenes
    others, said = see_others(OTHERS * len(train.captions))
    parts = [torch.cat(both) for both in zip(see(train), others, strict=True)]
    captions, features = train.captions + said, torch.cat(parts, 1)
    mean, deviation = spread(features)
    words = learn_vocabulary(chain.from_iterable(captions), punctuation=True)
    exam = Exam((torch.cat(see(val), 1) - mean) / deviation, val.captions)
    sizes = Sizes(features.shape[1], len(words), HIDDEN, HIDDEN)
    weights, losses = first_weights(sizes, plan.seed), list[float]()
    for stage in stages(captions, plan.seed):
        labels = label(words, stage.texts, most=LONGEST)
        lesson = Lesson((features - mean) / deviation, labels, words)
        steps = _plan(stage, plan, len(features))
        taught = CrossEntropyTraining(lesson, exam, (HIDDEN, HIDDEN), steps, CPU)
        begin(taught, weights)
        losses += _losses(taught)
        weights = taught.weights()
    # Of the last stage, what validation chose.
    network = restore_captioner(fold_scaling(taught.result()["weights"], mean, deviation), sizes)
    about = ABOUT | {"widths": [part.shape[1] for part in parts]}
    write_captioner(folder, StoredCaptioner(network, words, about), half=True)
    return clock.told(losses, plan.batch)


def measure_captioner(folder: Path, world: World) -> dict[str, Measure]:
    """Return CIDEr of the captions of `scenes`, and how many of their nouns the references name.

    Chance is what the same captions reach with the references of the next image.
    """
    network, words, _ = read_captioner(folder)
    texts = words.texts(greedy_captions(network, torch.cat(see(world.scenes), 1)))
    references = world.scenes.captions
    others = [*references[1:], references[0]]
    own, other = (cider(words, texts, which) for which in (references, others))
    right, wrong = (_named(texts, which) for which in (references, others))
    return {
        "cider": Measure(own.value, len(texts), other.value, own.stderr),
        "noun_precision": share(right, float(wrong.double().mean())),
    }


def see(examples: Examples) -> list[Tensor]:
    """Return what the captioner sees of each image, float32 [N, D] of each source."""
    sums = [one.vectors.sum(0) for one in examples.regions if one.vectors is not None]
    return [torch.stack(sums), *_encoded(examples.images)]


def see_others(count: int) -> tuple[list[Tensor], list[list[str]]]:
    """Return the same of so many images that are in no split of any task, and their captions."""
    blocks, captions = [], []
    for first in range(0, count, AT_ONCE):
        rows = list(worlds.other_rows(range(first, min(first + AT_ONCE, count))))
        pictures = [np.asarray(decode_image(one["image"], "an image of scenes")) for one in rows]
        sums = [torch.tensor(one["proposal_vectors"]).sum(0) for one in rows]
        pixels = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
        blocks.append([torch.stack(sums), *_encoded(pixels)])
        captions += [one["captions"] for one in rows]
    return [torch.cat(parts) for parts in zip(*blocks, strict=True)], captions


def first_weights(sizes: Sizes, seed: int) -> dict[str, Tensor]:
    """Return the weights that the training starts from."""
    weights = draw_captioner(sizes, torch.Generator().manual_seed(seed)).state_dict()
    # The gates are, in this order: input, forget, output, and the two candidates.
    weights["_core.h2h.bias"][sizes.hidden : 2 * sizes.hidden] += OPEN
    return weights


def stages(captions: Sequence[Sequence[str]], seed: int) -> list[Stage]:
    """Return the three stages for the captions of images."""
    rng = Random(seed)  # noqa: S311 - no secret
    lists = [noun_lists(several, rng) for several in captions]
    pairs = (zip(*both, strict=True) for both in zip(captions, lists, strict=True))
    both = [list(chain.from_iterable(several)) for several in pairs]
    return [
        Stage(lists, several=1, share=0.07, rate=1.0, decay=1.0),
        # Of two neighbours one is a caption.
        Stage(both, several=2, share=0.28, rate=1.0, decay=0.7),
        Stage(captions, several=1, share=0.65, rate=0.6, decay=0.78),
    ]


def noun_lists(captions: Sequence[str], rng: Random) -> list[str]:
    """Return for each caption of an image the nouns of all of them, in another random order."""
    nouns = sorted({word for text in captions for word in text.split() if word in SINGULAR})
    return [" ".join([LIST, *rng.sample(nouns, len(nouns))]) for _ in captions]


def begin(taught: CrossEntropyTraining, weights: Mapping[str, Tensor]) -> None:
    """Let a training that has not begun start from weights."""
    taught.restore({**taught.state(), "weights": weights})


def _encoded(images: Tensor) -> list[Tensor]:
    """Return the features of tiny-rn and tiny-clip of images uint8 [N, 3, 64, 64]."""
    rn = load_object("timm_cnn:TimmCnn", ADAPTERS)(
        device=CPU, architecture=str(TINY / "rn"), resize=images.shape[-1]
    )
    clip = load_object("open_clip:OpenClip", ADAPTERS)(device=CPU, architecture=str(TINY / "clip"))
    return [vectors(rn, images), vectors(clip, images)]


def _plan(stage: Stage, plan: Plan, images: int) -> CrossEntropy:
    """Return the plan of a stage, whole epochs of about so many steps."""
    at_once = plan.batch // stage.several
    batches = -(-images // at_once)
    epochs = max(1, round(stage.share * plan.steps / batches))
    return CrossEntropy(
        epochs=epochs,
        images=at_once,
        captions=stage.several,
        learning_rate=stage.rate * plan.rate,
        decay=stage.decay,
        decay_epochs=1,
        sampling=0.0,
        dropout=0.0,
        validate_steps=2 * batches,
        seed=plan.seed,
    )


def _losses(taught: CrossEntropyTraining) -> list[float]:
    """Do all steps, say now and then how far it is, and return the loss of each."""
    losses: list[float] = []
    for number in range(taught.steps):
        taught.step(number)
        losses.append(taught.loss)
        if (number + 1) % max(1, taught.steps // 8) == 0:
            loss = sum(losses[-WINDOW:]) / len(losses[-WINDOW:])
            print(f"tiny-captioner: {number + 1}/{taught.steps}, loss {loss:.3f}", flush=True)
    return losses


def _named(texts: list[str], references: list[list[str]]) -> Tensor:
    """Return whether the references name it, for each noun that a caption names, bool [N].

    A caption that names none counts as one that is wrong.
    """
    right = [
        noun in _nouns(" ".join(five))
        for text, five in zip(texts, references, strict=True)
        for noun in sorted(_nouns(text)) or [""]
    ]
    return torch.tensor(right)


def _nouns(text: str) -> set[str]:
    return {SINGULAR[word] for word in text.split() if word in SINGULAR}
