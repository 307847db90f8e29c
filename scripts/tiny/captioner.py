"""tiny-captioner: the FC captioner of `vlbench.nets`, taught by the captions of this world.

It sees the sum of an image's region vectors, and the features of tiny-rn and tiny-clip. Departures
from arXiv:2210.09550, for the time it takes and the little there is to see: standardised features
with noise, a higher rate, batches of 20 images.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tiny import world as worlds
from tiny.measures import ADAPTERS, Measure, share, vectors
from tiny.training import WINDOW, Plan, Training
from tiny.world import Examples, World
from vlbench.data.scenes.world import CATEGORIES, NOUNS, plural
from vlbench.nets.captioner import LONGEST, Sizes, greedy_captions
from vlbench.nets.captioner_cross_entropy import (
    CrossEntropy,
    CrossEntropyTraining,
    Exam,
    Lesson,
    cider,
)
from vlbench.nets.captioner_files import StoredCaptioner, read_captioner, write_captioner
from vlbench.nets.captioner_weights import restored, spread, unscaled
from vlbench.nets.captioner_words import label, learn_vocabulary
from vlbench.resolve import load_object

TINY = Path(__file__).resolve().parents[2] / "model_adapters" / "tiny"
CPU = torch.device("cpu")

HIDDEN = 128

# What the captioner sees, in this order: `regions` first, as the captioning probes put it.
ENCODERS = ("tiny-rn", "tiny-clip")
ABOUT: dict[str, Any] = {"regions": "sum", "encoders": ENCODERS}

# A noun and its plural are one.
SINGULAR = {form: noun for noun in (*NOUNS, *CATEGORIES) for form in (noun, plural(noun))}


def train_captioner(world: World, folder: Path, plan: Plan) -> Training:
    """Train on the captions of both configurations, choose on val of `scenes`, write the folder."""
    train, val = world.scenes + world.objects, worlds.read("val").scenes
    parts = see(train)
    features = torch.cat(parts, 1)
    mean, deviation = spread(features)
    words = learn_vocabulary((text for five in train.captions for text in five), punctuation=True)
    labels = label(words, train.captions, most=LONGEST)
    lesson = Lesson((features - mean) / deviation, labels, words)
    exam = Exam((torch.cat(see(val), 1) - mean) / deviation, val.captions)
    taught = CrossEntropyTraining(lesson, exam, (HIDDEN, HIDDEN), _plan(plan, len(features)), CPU)
    told = _timed(taught, plan)
    sizes = Sizes(features.shape[1], len(words), HIDDEN, HIDDEN)
    network = restored(unscaled(taught.result()["weights"], mean, deviation), sizes)
    about = ABOUT | {"widths": [part.shape[1] for part in parts]}
    write_captioner(folder, StoredCaptioner(network, words, about), half=True)
    return told


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
    rn = load_object("timm_cnn:TimmCnn", ADAPTERS)(
        device=CPU, architecture=str(TINY / "rn"), resize=examples.images.shape[-1]
    )
    clip = load_object("open_clip:OpenClip", ADAPTERS)(device=CPU, architecture=str(TINY / "clip"))
    return [torch.stack(sums), vectors(rn, examples), vectors(clip, examples)]


def _plan(plan: Plan, images: int) -> CrossEntropy:
    """Return the plan of a training of about so many steps."""
    epochs = max(1, round(plan.steps * plan.batch / images))
    return CrossEntropy(
        epochs=epochs,
        images=plan.batch,
        rate=plan.rate,
        decay=0.75,
        decay_epochs=2,
        dropout=0.3,
        feature_noise=0.5,
        validate_steps=max(1, plan.steps // 12),
        seed=plan.seed,
    )


def _timed(taught: CrossEntropyTraining, plan: Plan) -> Training:
    """Do all steps, say now and then how far it is, and return what they took."""
    load, wall, cpu = round(os.getloadavg()[0], 1), time.perf_counter(), time.process_time()
    losses = []
    for number in range(taught.steps):
        taught.step(number)
        losses.append(taught.loss)
        if (number + 1) % max(1, taught.steps // 20) == 0:
            recent = losses[-WINDOW:]
            loss = sum(recent) / len(recent)
            print(f"tiny-captioner: {number + 1}/{taught.steps}, loss {loss:.3f}", flush=True)
    ends = [sum(part) / len(part) for part in (losses[:WINDOW], losses[-WINDOW:])]
    seconds = [round(time.perf_counter() - wall, 1), round(time.process_time() - cpu, 1)]
    return Training(taught.steps, plan.batch, *ends, *seconds, torch.get_num_threads(), load)


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
