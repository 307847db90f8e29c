"""tiny-captioner: the FC captioner, taught by the captions of this world.

It sees the sum of the vectors that tiny-eyes gives an image's proposals. Departures from
arXiv:2210.09550, for the time it takes and the little there is to see: standardised features, a
higher rate, larger batches, no dropout, no scheduled sampling, forget gates that are open at first,
and lists of nouns before captions (`warm_up`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from tiny import eyes
from tiny import world as worlds
from tiny.measures import ADAPTERS, Measure, share
from tiny.training import WINDOW, Plan, Training
from tiny.warm_up import WarmUp, first_weights, phases
from tiny.world import Examples, World
from vlbench.capabilities import Picture
from vlbench.code.functions import load_object
from vlbench.data.scenes.world import CATEGORIES, NOUNS, plural
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
    TrainingCaptions,
    ValidationCaptions,
    cider,
)

CPU = torch.device("cpu")

HIDDEN = 128

# What is added to the bias of the forget gates at first: what was seen lasts for a caption.
OPEN = 4.0

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
    """Train on `scenes`, choose on their val, write the folder; tiny-eyes is in that beside."""
    clock = Clock()
    val = worlds.of_categories(worlds.read("val"), world.classes).scenes
    captions, features = world.scenes.captions, see(world.scenes, folder)
    mean, deviation = spread(features)
    words = learn_vocabulary(chain.from_iterable(captions), punctuation=True)
    exam = ValidationCaptions((see(val, folder) - mean) / deviation, val.captions)
    sizes = Sizes(features.shape[1], len(words), HIDDEN, HIDDEN)
    weights, losses = first_weights(sizes, plan.seed, OPEN), list[float]()
    for phase in phases(captions, *plans(plan, len(features)), SINGULAR.__contains__):
        labels = label(words, phase.texts, most=LONGEST)
        lesson = TrainingCaptions((features - mean) / deviation, labels, words)
        taught = CrossEntropyTraining(lesson, exam, weights, phase.plan, CPU)
        losses += _losses(taught)
        weights = taught.weights()
    # Of the last phase, what validation chose.
    network = restore_captioner(fold_scaling(taught.result()["weights"], mean, deviation), sizes)
    about = {"regions": "sum", "region_encoder": "tiny-eyes", "widths": [features.shape[1]]}
    write_captioner(folder, StoredCaptioner(network, words, about), half=True)
    return clock.told(losses, plan.batch)


def measure_captioner(folder: Path, world: World) -> dict[str, Measure]:
    """Return CIDEr of the captions of `scenes`, how many of their nouns the references name.

    And how many nouns of the references they name. Chance is what the same captions reach with the
    references of the next image.
    """
    network, words, _ = read_captioner(folder)
    texts = words.texts(greedy_captions(network, see(world.scenes, folder)))
    references = world.scenes.captions
    others = [*references[1:], references[0]]
    own, other = (cider(words, texts, which) for which in (references, others))
    measured = {"cider": Measure(own.value, len(texts), other.value, own.stderr)}
    for name, count in (("noun_precision", _precise), ("noun_recall", _recalled)):
        right, wrong = (count(texts, which) for which in (references, others))
        measured[name] = share(right, float(wrong.double().mean()))
    return measured


def see(examples: Examples, folder: Path) -> Tensor:
    """Return what the captioner sees of each image, float32 [N, D].

    It is the sum of the vectors of the proposals, as the captioning probes ask tiny-eyes for them.
    """
    model = load_object("timm_cnn:TimmCnn", ADAPTERS)(
        device=CPU, architecture=str(folder.with_name("eyes")), resize=eyes.SIDE, squash=True
    )
    crops = load_object("crops:Crops", ADAPTERS)(device=CPU, encoder=model)
    pixels = examples.images.permute(0, 2, 3, 1).numpy()
    pictures = (Picture(Image.fromarray(one), None) for one in pixels)
    with torch.inference_mode():
        seen = [
            crops.encode_regions([picture], [regions.boxes])[0].sum(0)
            for picture, regions in zip(pictures, examples.regions, strict=True)
        ]
    return torch.stack(seen)


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


def _precise(texts: list[str], references: list[list[str]]) -> Tensor:
    """Return whether the references name it, for each noun that a caption names, bool [N].

    A caption that names none counts as one that is wrong.
    """
    right = [
        noun in _nouns(" ".join(five))
        for text, five in zip(texts, references, strict=True)
        for noun in sorted(_nouns(text)) or [""]
    ]
    return torch.tensor(right)


def _recalled(texts: list[str], references: list[list[str]]) -> Tensor:
    """Return whether a caption names it, for each noun that the references name, bool [N]."""
    right = [
        noun in _nouns(text)
        for text, five in zip(texts, references, strict=True)
        for noun in sorted(_nouns(" ".join(five)))
    ]
    return torch.tensor(right)


def _nouns(text: str) -> set[str]:
    return {SINGULAR[word] for word in text.split() if word in SINGULAR}
