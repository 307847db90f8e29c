"""tiny-word2vec: skip-gram vectors of the captions' words (arXiv:1310.4546), as gensim trains them.

A word's vector is the same in every caption, and of the same captions as tiny-bert's: what its
words lack is context.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from gensim.models import KeyedVectors, Word2Vec
from gensim.models.callbacks import CallbackAny2Vec
from torch.nn.functional import normalize

from tiny import bert
from tiny.measures import Measure, share
from tiny.training import Plan, Training
from tiny.world import World
from vlbench.data.scenes.world import CATEGORY, NOUNS

WIDTH, WINDOW, NEGATIVE = 64, 5, 5
FILE = "vectors.bin"


class Losses(CallbackAny2Vec):  # type: ignore[misc] - the library has no types
    """Keeps the loss of each epoch."""

    def __init__(self) -> None:
        """Start with none."""
        self.each: list[float] = []

    def on_epoch_end(self, model: Word2Vec) -> None:
        """Keep the loss of an epoch, and begin the next one's at zero."""
        self.each.append(float(model.get_latest_training_loss()))
        model.running_training_loss = 0.0


def train_word2vec(world: World, folder: Path, plan: Plan) -> Training:
    """Train on the captions of both configurations, write the file; a step is an epoch."""
    texts = [caption.split() for caption in bert.captions(world)]
    losses, load = Losses(), round(os.getloadavg()[0], 1)
    wall, cpu = time.perf_counter(), time.process_time()
    # One worker: several would train on words in no fixed order.
    model = Word2Vec(
        texts,
        sg=1,
        vector_size=WIDTH,
        window=WINDOW,
        negative=NEGATIVE,
        min_count=1,
        alpha=plan.rate,
        epochs=plan.steps,
        workers=1,
        batch_words=plan.batch,
        seed=plan.seed,
        compute_loss=True,
        callbacks=[losses],
    )
    seconds = [round(time.perf_counter() - wall, 1), round(time.process_time() - cpu, 1)]
    model.wv.save_word2vec_format(str(folder / FILE), binary=True)
    pairs = len(texts)
    ends = losses.each[0] / pairs, losses.each[-1] / pairs
    return Training(plan.steps, plan.batch, *ends, *seconds, 1, load)


def measure_word2vec(folder: Path, world: World) -> dict[str, Measure]:
    """Return how many nouns have one of their own category as the nearest of all nouns."""
    del world  # Vectors without context can be asked of themselves alone.
    vectors = KeyedVectors.load_word2vec_format(str(folder / FILE), binary=True)
    found = normalize(torch.tensor(vectors[list(NOUNS)]))
    nearest = (found @ found.T).fill_diagonal_(-1).argmax(1).tolist()
    own = [CATEGORY[noun] for noun in NOUNS]
    right = torch.tensor([own[i] == own[j] for i, j in enumerate(nearest)])
    pairs = sum(own.count(category) - 1 for category in own)
    chance = pairs / (len(own) * (len(own) - 1))
    return {"nearest_noun_is_of_its_category": share(right, chance)}
