"""tiny-captioner: the FC captioner, taught by the captions of this world.

It sees the sum of an image's region vectors, and the features of tiny-rn and tiny-clip. Departures
from arXiv:2210.09550, for the time it takes and the little there is to see: standardised features,
images of other seeds beside those of train, a higher rate, larger batches, no dropout, no scheduled
sampling, forget gates that are open at first, and lists of nouns before captions (`warm_up`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

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
from vlbench.probes.captioning.warm_up import WarmUp, first_weights, phases

TINY = Path(__file__).resolve().parents[2] / "model_adapters" / "tiny"
CPU = torch.device("cpu")

HIDDEN = 128

# Images of other seeds for each of train, and how many of them are in memory at a time.
OTHERS, AT_ONCE = 14, 1000

# What is added to the bias of the forget gates at first: what was seen lasts for a caption.
OPEN = 4.0

# What the captioner sees, in this order: `regions` first, as the captioning probes put it.
ENCODERS = ("tiny-rn", "tiny-clip")
ABOUT: dict[str, Any] = {"regions": "sum", "encoders": ENCODERS}

# A noun and its plural are one.
SINGULAR = {form: noun for noun in (*NOUNS, *CATEGORIES) for form in (noun, plural(noun))}


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
    weights, losses = first_weights(sizes, plan.seed, OPEN), list[float]()
    for phase in phases(captions, *plans(plan, len(features)), SINGULAR.__contains__):
        labels = label(words, phase.texts, most=LONGEST)
        lesson = Lesson((features - mean) / deviation, labels, words)
        taught = CrossEntropyTraining(lesson, exam, weights, phase.plan, CPU)
        losses += _losses(taught)
        weights = taught.weights()
    # Of the last phase, what validation chose.
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


def _encoded(images: Tensor) -> list[Tensor]:
    """Return the features of tiny-rn and tiny-clip of images uint8 [N, 3, 64, 64]."""
    rn = load_object("timm_cnn:TimmCnn", ADAPTERS)(
        device=CPU, architecture=str(TINY / "rn"), resize=images.shape[-1]
    )
    clip = load_object("open_clip:OpenClip", ADAPTERS)(device=CPU, architecture=str(TINY / "clip"))
    return [vectors(rn, images), vectors(clip, images)]


def plans(plan: Plan, images: int) -> tuple[CrossEntropy, WarmUp]:
    """Return the plans of captions and of what goes before, whole epochs of about so many steps."""
    batches, halves = -(-images // plan.batch), -(-images // (plan.batch // 2))
    lists, mixed, captions = (
        max(1, round(share * plan.steps / count))
        for share, count in ((0.07, batches), (0.28, halves), (0.65, batches))
    )
    taught = CrossEntropy(
        epochs=captions,
        images=plan.batch,
        captions=1,
        learning_rate=0.6 * plan.rate,
        decay=0.78,
        decay_epochs=1,
        sampling=0.0,
        dropout=0.0,
        validate_steps=2 * batches,
        seed=plan.seed,
    )
    return taught, WarmUp(noun_lists=lists, mixed=mixed, learning_rate=plan.rate, open_gates=OPEN)


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
