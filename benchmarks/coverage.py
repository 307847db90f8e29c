"""Measure how often intervals cover, and how often tests are wrong, on planted models.

A row of the first table is the fraction of draws whose 95 % interval holds the mean over all draws,
or the true value; of the second, that call two equal models different at p < 0.05. Targets are 93
to 97 % and 4 to 6 % where 20 right and 20 wrong items are expected in 50 clusters; elsewhere the
figure is stated. The third is of boards of equally good models, and of one that is better by 20
points, whose items differ in how hard they are: the fraction of boards that call any of the equal
models behind (target: at most 6 %), and that find every other model behind the better one.

Run: python benchmarks/coverage.py [--draws 2000] [--items 200] [--only clustering]
It writes its tables into docs/simulations.md; with --only, the lines that are there already.
"""

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch.nn.functional import normalize

from vlbench.errors import counted
from vlbench.metrics import intervals, rdm_correlation
from vlbench.metrics.best_of_halves import KEPT, best_of_halves
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.gains import gain
from vlbench.metrics.items import Examples
from vlbench.metrics.paired import (
    among_all_pairs,
    compare_corpora,
    compare_items,
    holm,
)
from vlbench.metrics.ranking import right_ranks
from vlbench.probes.captioning.caption_statistics import over_seeds, with_ones
from vlbench.probes.generalization import clustering
from vlbench.probes.generalization.similarity import scores_of
from vlbench.probes.generalization.word_similarity import agreement
from vlbench.probes.matching.pools import Captions, draw_pools
from vlbench.probes.matching.retrieval import Queries, Ranks, by_image_and_by_caption
from vlbench.report.leaders import LEVEL

PAGE = Path(__file__).resolve().parents[1] / "docs" / "simulations.md"

Random = np.random.Generator
Array = np.ndarray

# Clusterings and similarities take longer than all else: so many draws fewer.
SLOW = 20


class Planted(NamedTuple):
    """What is planted, how one draw of it is estimated or tested, its truth, and if it is slow.

    Without a truth, it is the centre of the values of all draws.
    """

    name: str
    draw: Callable[[Random], intervals.Estimate | float]
    truth: float | None = None
    slower: int = 1
    centre: Callable[[Sequence[float]], Any] = np.mean


def chances(rng: Random, mean: float, spread: float, size: int | tuple[int, ...]) -> Array:
    """Return probabilities whose logits vary with so large a standard deviation about a mean."""
    return 1 / (1 + np.exp(-rng.normal(math.log(mean / (1 - mean)), spread, size)))


def credits_of_trials(
    rng: Random, mean: float, trials: int, items: int, seeds: float, models: int = 1
) -> Array:
    """Return [models, trials, items] credits; logits of items vary by 1, of seeds by so much."""
    logit = math.log(mean / (1 - mean)) + rng.normal(0, 1, items)
    logit = logit + rng.normal(0, seeds, (models, trials, 1))
    return (rng.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(float)


def f1_of_yes(rng: Random, images: int, sharpness: float) -> intervals.Estimate:
    """Return the F1 of a model that prefers yes, by effects of images of one logit.

    Half of the questions have the answer yes. The truth was computed from 200,000 images.
    """
    truth = np.tile([1, 1, 1, 0, 0, 0], (images, 1))
    logits = sharpness * (2 * truth - 1) + rng.normal(0.7, 1, (images, 1))
    said = rng.random(truth.shape) < 1 / (1 + np.exp(-logits))
    return intervals.fraction_of_sums(2 * (truth * said).sum(1), (truth + said).sum(1))


def clustered(rng: Random, mean: float, clusters: int, models: int = 1) -> tuple[Array, Array]:
    """Return hits [models, C] of 1 to 11 items in each cluster, correlated by .1, and the sizes."""
    sizes = rng.integers(1, 12, clusters)
    right = rng.beta(9 * mean, 9 * (1 - mean), (models, clusters))
    return rng.binomial(sizes, right), sizes


def uneven(rng: Random, mean: float, clusters: int, models: int = 1) -> tuple[Array, Array]:
    """Return hits [models, C] in clusters of about 4 items, and their lognormal sizes, sd 1.

    The items of a cluster are right together (an intraclass correlation of .5 on a probit scale).
    """
    sizes = np.maximum(1, np.round(rng.lognormal(math.log(4), 1, clusters))).astype(int)
    ease = rng.normal(0, math.sqrt(0.5), (models, clusters))
    right = ndtr((ndtri(mean) + ease) / math.sqrt(0.5))
    return rng.binomial(sizes, right), sizes


def analogies(rng: Random, sections: int, models: int = 1) -> tuple[Array, Array]:
    """Return credits [models, N] of all ordered pairs of 23 word pairs a section, and the pairs."""
    first, second = np.nonzero(~np.eye(23, dtype=bool))
    ease = rng.normal(0, 1, (models, sections, 23))
    logit = ease[:, :, first] + ease[:, :, second] - 0.5
    right = rng.random(logit.shape) < 1 / (1 + np.exp(-logit))
    places = np.stack([first, second], 1)[None] + 23 * np.arange(sections)[:, None, None]
    return right.reshape(models, -1).astype(float), places.reshape(-1, 2)


def captions(rng: Random, images: int, models: int = 1) -> Array:
    """Return statistics [models, images, 10] of BLEU, where images differ in how easy they are."""
    words = rng.integers(6, 14, (models, images))
    right = chances(rng, 0.6, 0.7, (images,)) * np.ones((models, 1))
    guessed = words[..., None] - np.arange(4)
    matched = rng.binomial(guessed, right[..., None] ** np.arange(1, 5))
    reference = rng.integers(6, 14, images) * np.ones((models, 1))
    return np.concatenate([matched, guessed, words[..., None], reference[..., None]], -1) * 1.0


# The accuracies of layers, for the choice of the best of them.
LAYERS = {
    "12 equal layers": np.full(12, 0.5),
    "12 layers from 20 to 70 %": np.linspace(0.2, 0.7, 12),
    "12 layers, one better by 10 points": np.array([0.6] + [0.5] * 11),
}


def credits_of_layers(
    rng: Random, accuracies: Array, trials: int, items: int, models: int = 1
) -> Array:
    """Return [models, layers, trials, items] credits; items and, of several trials, trials vary.

    On a probit scale items vary by .8, at each layer by another .4, and trials by .15 twice.
    """
    several, seeds = (models, len(accuracies)), 0.15 * (trials > 1)
    shared = rng.normal(0, 0.8, items) + rng.normal(0, seeds, (trials, 1))
    own = rng.normal(0, 0.4, (*several, 1, items)) + rng.normal(0, seeds, (*several, trials, 1))
    spread = math.sqrt(1 + 0.8**2 + 0.4**2 + 2 * seeds**2)
    threshold = ndtri(accuracies)[:, None, None] * spread
    noise = rng.normal(size=(*several, trials, items))
    return (noise < threshold + shared + own).astype(float)


class ChosenLayer(NamedTuple):
    """Credit [T, N] at the layer that is chosen, what is estimated, the truth, and the samples."""

    credit: Array
    estimate: intervals.Estimate
    truth: float
    samples: Array | None = None


def layer_of_held_out(held_out: Array, tested: Array, accuracies: Array) -> ChosenLayer:
    """Choose the layer on other items in other trials than those that score it."""
    best = int(held_out.mean((1, 2)).argmax())
    estimate = intervals.mean_of_trials(tested[best])
    return ChosenLayer(tested[best], estimate, float(accuracies[best]))


def layers_of_halves(credit: Array, accuracies: Array) -> ChosenLayer:
    """Choose the layer of each half of the items on the other half."""
    found = best_of_halves(credit, np.arange(credit.shape[-1]))
    truth = float(accuracies[[*found.chosen]].mean())
    return ChosenLayer(found.credit, found.estimate, truth, found.samples[:KEPT])


# How the best layer is chosen: on so many held-out items, or by halves (None).
CHOICES = {"chosen on 500 held-out images": 500, "chosen on 100": 100, "by halves": None}


def chosen_layers(
    rng: Random, accuracies: Array, trials: int, held_out: int | None, models: int = 1
) -> list[ChosenLayer]:
    """Return the chosen layer of each model, scored on 200 items."""
    tested = credits_of_layers(rng, accuracies, trials, 200, models)
    if held_out is None:
        return [layers_of_halves(credit, accuracies) for credit in tested]
    choosing = credits_of_layers(rng, accuracies, trials, held_out, models)
    pairs = zip(choosing, tested, strict=True)
    return [layer_of_held_out(own, credit, accuracies) for own, credit in pairs]


def layer_designs() -> Iterator[tuple[str, Callable[..., list[ChosenLayer]], bool]]:
    """Yield the name of each design, what draws it, and whether halves choose the layers."""
    for (kind, accuracies), trials in product(LAYERS.items(), (1, 10)):
        for choice, held_out in CHOICES.items():
            name = f"best layer, {choice}: {kind}, {counted(trials, 'trial')} of 200 items"
            draw = partial(chosen_layers, accuracies=accuracies, trials=trials, held_out=held_out)
            yield name, draw, held_out is None


def error_at_layer(rng: Random, draw: Callable[..., list[ChosenLayer]]) -> intervals.Estimate:
    """Return the estimate of the layer that is chosen, less its truth."""
    (chosen,) = draw(rng)
    value, stderr, (low, high) = chosen.estimate
    truth = chosen.truth
    return intervals.Estimate(value - truth, stderr, (low - truth, high - truth))


def compare_layers(rng: Random, draw: Callable[..., list[ChosenLayer]]) -> float:
    """Return p of two models whose layers are equally good."""
    a, b = draw(rng, models=2)
    no_samples = a.samples is None or b.samples is None
    halves = None if no_samples else a.samples - b.samples
    items = np.arange(a.credit.shape[1])
    return compare_items(a.credit, b.credit, items, halves=halves, flips=999).p


def planted_layers() -> Iterator[Planted]:
    """Yield the intervals of the best layer."""
    for name, draw, by_halves in layer_designs():
        error = partial(error_at_layer, draw=draw)
        yield Planted(name, error, 0.0, slower=2 if by_halves else 1)


def planted_layer_tests() -> Iterator[Planted]:
    """Yield the tests of two models at their best layers."""
    for name, draw, _ in layer_designs():
        yield Planted(name, partial(compare_layers, draw=draw), slower=2)


def features(rng: Random, images: int, models: int = 1) -> tuple[list[torch.Tensor], Array]:
    """Return features of images of four normal classes by equally good encoders, and the labels."""
    label, shared = rng.integers(4, size=images), rng.normal(size=(images, 16))
    centres = 0.6 * np.abs(np.random.default_rng(0).normal(size=(4, 16))) + 1
    own = rng.normal(size=(models, images, 16))
    points = centres[label] + math.sqrt(0.5) * (shared + own)
    return [torch.from_numpy(one).float() for one in points], label


def cluster_accuracies(points: torch.Tensor, label: Array) -> tuple[float, list[float]]:
    """Return the accuracy of a clustering, and of those of halves of the images."""
    ids = [f"{i:04}" for i in range(len(label))]
    halves = clustering.draw_halves(ids, 0)
    whole = clustering.cluster(points, 4, seed=0)["labels"].numpy()
    again = clustering.cluster_halves(points, halves, 4, 0).numpy()
    value, *by_half = (
        float(clustering.values_of(found, truth, 4)[0])
        for found, truth in [(whole, label), *zip(again, label[halves], strict=True)]
    )
    return value, by_half


def clustering_estimate(rng: Random) -> intervals.Estimate:
    """Return the accuracy of a clustering of 200 images."""
    (points,), label = features(rng, 200)
    value, by_half = cluster_accuracies(points, label)
    variance = float(np.var(by_half, ddof=1))
    return intervals.fraction(value, variance, len(by_half) - 1, len(label))


def clustering_test(rng: Random) -> float:
    """Return p of the difference of two equal encoders' clusterings."""
    several, label = features(rng, 200, models=2)
    (first, of_first), (second, of_second) = (cluster_accuracies(p, label) for p in several)
    halves = np.subtract(of_first, of_second)
    value = np.array([first - second])
    return compare_items(value, 0 * value, np.zeros(1), halves=halves, flips=9).p


# The groups of 40 classes: their own, or 12 categories as in `scenes`; and for about such a
# correlation of two matrices, how large their noise is with either.
GROUPS = {"40 classes": np.arange(40), "40 classes in 12 categories": np.arange(40) % 12}
NOISE = {0.25: (0.97, 1.17), 0.5: (0.63, 0.7), 0.9: (0.23, 0.24), 0.99: (0.07, 0.07)}


def rdm_estimate(rng: Random, groups: Array, noise: float) -> intervals.Estimate:
    """Return the correlation of two models' matrices of 40 classes, whose vectors share a part.

    Half of what differs between classes, and between models, is common to their category.
    """
    pairs = np.triu_indices(40, 1)

    def vectors() -> Array:
        return rng.normal(size=(groups.max() + 1, 10))[groups] + rng.normal(size=(40, 10))

    shared, matrices = vectors(), []
    for _ in range(2):
        own = shared + noise * vectors()
        matrices.append(np.linalg.norm(own[:, None] - own, axis=-1)[pairs])
    table = rdm_correlation.standardised(matrices, 2)
    value = rdm_correlation.correlations(table)[0, 1]
    less = next(rdm_correlation.left_out(table, groups))[:, 0, 1]
    return intervals.Estimate(float(value), *rdm_correlation.jackknife(value, less))


def planted_intervals() -> Iterator[Planted]:
    """Yield every kind of interval that boards use."""
    wilson = intervals.wilson
    for mean, items in ((0.8, 100), (0.95, 400), (0.95, 50)):
        yield Planted(
            f"independent items, Wilson: {items}, {mean:.0%} right",
            lambda rng, m=mean, n=items: wilson(rng.binomial(n, m), n),
            mean,
        )
    yield from planted_clusters()
    for images, sharpness in ((20, 1.0), (20, 2.5), (500, 1.0)):
        yield Planted(
            f"F1 of yes: 6 questions about each of {images} images, sharpness {sharpness}",
            lambda rng, i=images, s=sharpness: f1_of_yes(rng, i, s),
            {1.0: 0.718, 2.5: 0.888}[sharpness],
        )
    for trials, seeds in ((10, 0.0), (10, 0.5), (5, 0.0), (5, 0.2), (5, 0.5), (5, 1.0), (3, 0.5)):
        yield Planted(
            f"trials: {trials} of 100 items, about 70 % right, seeds vary by {seeds} logits",
            lambda rng, t=trials, s=seeds: intervals.mean_of_trials(
                credits_of_trials(rng, 0.7, t, 100, s)[0]
            ),
        )
    for sections in (5, 1):

        def pairs(rng: Random, sections: int = sections) -> intervals.Estimate:
            (credit,), places = analogies(rng, sections)
            return intervals.mean_over_pairs(credit, places)

        yield Planted(f"analogies: {23 * sections} word pairs, 23 a section", pairs)
    yield Planted("clustering: 200 images of 4 classes", clustering_estimate, slower=SLOW)
    yield from planted_retrieval()
    yield from planted_sums()
    for effect, pairs, words in ((0.0, 200, 400), (0.7, 200, 120), (0.7, 100, 40)):
        yield Planted(
            f"correlation of judged pairs: {pairs} of {words} words, effects of words {effect}",
            lambda rng, p=pairs, w=words, e=effect: word_pairs(rng, p, w, e),
            slower=2,
        )
    yield from planted_similarities()
    yield Planted("code length: 600 train images", lambda rng: code_length(rng, 1))
    yield Planted("code length: 600 train images in 60 types", lambda rng: code_length(rng, 10))
    yield from planted_matrices()
    yield from planted_layers()


def share_of_clusters(rng: Random, draw: Any, mean: float, clusters: int) -> intervals.Estimate:
    """Return the fraction of items in drawn clusters."""
    (hits,), counts = draw(rng, mean, clusters)
    return intervals.clustered_fraction(hits, counts)


def planted_clusters() -> Iterator[Planted]:
    """Yield the intervals of fractions over clusters of even and of very uneven sizes."""
    for draw, sizes, designs in (
        (clustered, "1 to 11 items", ((0.7, 60), (0.95, 100), (0.95, 20))),
        (uneven, "very uneven sizes", ((0.72, 60), (0.72, 300), (0.97, 100), (0.95, 30))),
    ):
        for mean, clusters in designs:
            name = f"fraction over clusters: {clusters} of {sizes}, {mean:.0%} right"
            share = partial(share_of_clusters, draw=draw, mean=mean, clusters=clusters)
            yield Planted(name, share, mean)


def queries(rng: Random, images: int, each: int, noise: float) -> list[Queries]:
    """Return images that retrieve their captions, `each` of them, and captions their images.

    Vectors of captions are those of images with noise, of which a part is that of the image; images
    differ in how much they have.
    """
    owner = np.repeat(np.arange(images), each)
    shown, shared = rng.normal(size=(2, images, 32))
    own = noise * np.exp(0.5 * rng.normal(size=(images, 1)))
    said = (shown + 0.6 * own * shared)[owner] + 0.8 * own[owner] * rng.normal(
        size=(len(owner), 32)
    )
    cosines = normalize(torch.from_numpy(shown), dim=1) @ normalize(torch.from_numpy(said), dim=1).T
    (pool,) = draw_pools(torch.full((images,), each), None, 0)
    ranks = Ranks(
        right_ranks(cosines, pool.right_captions), right_ranks(cosines.T, pool.right_images)
    )
    examples = Examples(*[[str(i) for i in range(images)]] * 2)
    texts = [str(i) for i in range(len(owner))]
    return by_image_and_by_caption(Captions(texts, texts, pool.sizes, examples), [pool], [ranks])


# Images, captions of each, and noise: recall at 1 of captions is about .98, .77, .54 and .25.
RETRIEVED = ((300, 1, 0.6), (200, 5, 1.4), (100, 5, 2.25), (100, 5, 4.0))


def retrieval_score(
    rng: Random, shape: tuple[int, int, float], way: int, metric: str
) -> intervals.Estimate:
    """Return a score of captions, or of images, that are retrieved."""
    measured = queries(rng, *shape)[way].measure([1], {})
    score = next(one.score for one in measured if one.score.metric == metric)
    assert score.ci95
    return intervals.Estimate(score.value, score.stderr or 0, score.ci95)


def planted_retrieval() -> Iterator[Planted]:
    """Yield the intervals of both ways of retrieval."""
    metrics = {"recall": np.mean, "median_rank": np.median, "mean_average_precision": np.mean}
    for shape, way, metric in product(RETRIEVED, (0, 1), metrics):
        images, each, noise = shape
        what = f"{metric.replace('_', ' ')} of {('captions', 'images')[way]}"
        draw = partial(retrieval_score, shape=shape, way=way, metric=metric)
        name = f"{what}: {images} x {each}, noise {noise}"
        yield Planted(name, draw, slower=5, centre=metrics[metric])


def planted_matrices() -> Iterator[Planted]:
    """Yield the intervals of correlations of matrices."""
    for i, (kind, groups) in enumerate(GROUPS.items()):
        for r, noise in NOISE.items():
            yield Planted(
                f"correlation of matrices, about {r}: {kind}",
                lambda rng, g=groups, s=noise[i]: rdm_estimate(rng, g, s),
            )


def planted_sums() -> Iterator[Planted]:
    """Yield the intervals of formulas of sums."""

    def difference(rng: Random) -> intervals.Estimate:
        hits, sizes = clustered(rng, 0.7, 60, models=2)
        return intervals.clustered_ratio(hits[0] - hits[1], sizes)

    def mean(rng: Random) -> intervals.Estimate:
        values = rng.gamma(1, 1, 60) + rng.normal(0, 0.1, (5, 1))
        rows = np.stack([values.mean(0), np.ones(60)], 1)
        return intervals.estimate_of_sums(rows, intervals.ratio, by_seed=values.mean(1))

    def perplexity(rng: Random, images: int) -> intervals.Estimate:
        words = rng.integers(6, 14, images)
        logs = -words * rng.gamma(4, 0.3, images)
        rows = np.stack([logs, words, 0 * words], 1)
        formula = CORPORA["perplexity"].formula
        return intervals.estimate_of_sums(rows, formula, ends=intervals.log_ends)

    def bleu(rng: Random) -> intervals.Estimate:
        (rows,) = captions(rng, 100)
        return intervals.estimate_of_sums(rows, CORPORA["bleu_4"].formula)

    yield Planted("ratio: paired difference, 60 clusters of 1 to 11 items", difference, 0.0)
    yield Planted("mean of 5 seeds, which vary by a tenth: 60 skewed values", mean)
    yield Planted("perplexity: 60 captions", lambda rng: perplexity(rng, 60), 10**1.2)
    yield Planted("perplexity: 10 captions", lambda rng: perplexity(rng, 10), 10**1.2)
    yield Planted("corpus score: BLEU-4 of 100 captions", bleu)


def word_pairs(rng: Random, pairs: int, words: int, effect: float) -> intervals.Estimate:
    """Return Spearman's correlation over pairs of words that have effects of their own."""
    places = np.stack([rng.permutation(words)[:2] for _ in range(pairs)])
    shared, *own = rng.normal(size=(3, words)) * effect
    ease = [(shared + one)[places].sum(1) for one in own]
    common = rng.normal(size=pairs)
    alike, human = (one + common + rng.normal(size=pairs) for one in ease)
    return agreement(alike, human, places)


def unrelated_pairs(rng: Random, pairs: int, words: int) -> intervals.Estimate:
    """Return Spearman's correlation of unrelated similarities of pairs of words."""
    places = np.stack([rng.permutation(words)[:2] for _ in range(pairs)])
    alike, human = rng.normal(size=(2, words))[:, places].sum(2) + rng.normal(size=(2, pairs))
    return agreement(alike, human, places)


# How vectors of images are planted: as Gaussian points, in six classes, or of heavy-tailed length.
VECTORS = ("Gaussian vectors", "vectors in 6 classes", "vectors of heavy-tailed length")


def similar_vectors(rng: Random, images: int, kind: str) -> list[torch.Tensor]:
    """Return two models' vectors of the same images, [images, D] each, which share a part."""
    fixed, shared = np.random.default_rng(0), rng.normal(size=(images, 8))
    if kind == VECTORS[1]:
        shared = 0.7 * shared + 2 * fixed.normal(size=(6, 8))[rng.integers(0, 6, images)]
    if kind == VECTORS[2]:
        shared *= np.abs(rng.standard_t(3, size=(images, 1)))
    return [
        torch.from_numpy(
            shared @ fixed.normal(size=(8, width)) + 1.5 * rng.normal(size=(images, width))
        )
        for width in (30, 20)
    ]


def planted_similarities() -> Iterator[Planted]:
    """Yield the intervals of similarities with a companion."""
    places = {"debiased CKA": 0, "correlation of distances": 1, "mutual 5-NN": 2}
    for (name, place), kind in product(places.items(), VECTORS):

        def similarity(rng: Random, place: int = place, kind: str = kind) -> Any:
            x, y = similar_vectors(rng, 100, kind)
            return scores_of(x, y, 5, 20, int(rng.integers(1 << 31)))[place]

        yield Planted(f"{name}, 100 images, {kind}", similarity, slower=SLOW)


def code_length(rng: Random, per_type: int) -> intervals.Estimate:
    """Return the bits per label of 600 train images, in types whose images are alike easy."""
    types = np.arange(600) // per_type
    bits = rng.gamma(2, 0.5, 600) * rng.lognormal(0, 0.4, types.max() + 1)[types]
    sums = np.stack([np.bincount(types, bits), np.bincount(types).astype(float)], 1)
    return intervals.estimate_of_sums(sums, intervals.ratio)


def reaches(estimate: intervals.Estimate, floor: float) -> float:
    """Return 1 if an interval holds a floor, else 0, as a p-value below every level."""
    return float(estimate.ci95[0] <= floor <= estimate.ci95[1])


def planted_floors() -> Iterator[Planted]:
    """Yield judgements by an interval against a floor, of models that guess as the floor does."""

    def phrases(rng: Random) -> float:
        sizes = rng.integers(1, 18, 300)
        return reaches(intervals.clustered_fraction(rng.binomial(sizes, 0.379), sizes), 0.379)

    def chosen(rng: Random) -> float:
        return reaches(intervals.wilson(rng.binomial(600, 0.5), 600), 0.5)

    yield Planted("interval without the floor: 300 images of 1 to 17 guessed phrases", phrases)
    yield Planted("interval without chance: 600 guessed captions", chosen)
    yield from planted_nulls()


def not_above(estimate: Any) -> float:
    """Return 0 if an interval of an estimate or a score is above 0, else 1, as a p-value."""
    return float(estimate.ci95[0] <= 0)


def planted_nulls() -> Iterator[Planted]:
    """Yield judgements by an interval above 0 of models that do not have what is asked."""

    def gained(rng: Random) -> float:
        names = [str(i) for i in range(300)]
        examples = Examples(names, [str(i // 5) for i in range(300)])
        credit, other = rng.random((2, 300)) < chances(rng, 0.5, 1, 300)
        return not_above(gain("gain", credit, other, examples).score)

    def rewarded(rng: Random) -> float:
        images, seeds = rng.normal(size=100), 0.1 * rng.normal(size=(3, 1))
        after = images + seeds + rng.normal(size=(3, 100))
        before = with_ones(images + rng.normal(size=100))
        value = over_seeds(with_ones(after), intervals.ratio, less=before)
        assert value
        return not_above(value.estimate)

    def selective(rng: Random) -> float:
        # The probe reads the labels of a type as often as labels drawn for each type.
        types = np.arange(300) % 30
        right = chances(rng, 0.5, 1, (6, 30))[:, types]
        task, *controls = (rng.random((6, 300)) < right).astype(float)
        by_seed = [float(task.mean() - one.mean()) for one in controls]
        less = task - np.mean(controls, 0)
        sums = np.stack([np.bincount(types, less), np.bincount(types).astype(float)], 1)
        return not_above(intervals.estimate_of_sums(sums, intervals.ratio, by_seed=by_seed))

    def selective_once(rng: Random) -> float:
        # As in object_label_alignment: 3 networks, one control task, and images as units.
        classes = np.arange(300) % 30
        task, control = chances(rng, 0.5, 1, (2, 30))[:, classes]
        less = (rng.random((3, 300)) < task) * 1.0 - (rng.random((3, 300)) < control)
        value = over_seeds(with_ones(less), intervals.ratio)
        assert value
        return not_above(value.estimate)

    def similar(rng: Random, place: int) -> float:
        x, y = (torch.from_numpy(rng.normal(size=(100, width))) for width in (30, 20))
        return not_above(scores_of(x, y, 5, 20, int(rng.integers(1 << 31)))[place])

    yield Planted("gain above 0: 300 questions about 60 images that a model ignores", gained)
    yield Planted("match_score_gain above 0: 3 seeds that learn nothing, 100 images", rewarded)
    yield Planted("selectivity above 0: 5 control tasks, 30 types alike hard", selective)
    name = "selectivity above 0: one control task for 3 networks, 30 classes alike hard"
    yield Planted(name, selective_once)
    for place, name in (
        (0, "debiased CKA"),
        (1, "correlation of distances"),
        (3, "calibrated 5-NN"),
    ):
        named = f"{name} above 0: 100 images, unrelated vectors"
        yield Planted(named, partial(similar, place=place), slower=2)
    yield Planted(
        "correlation of matrices above 0: 40 classes, unrelated",
        lambda rng: not_above(rdm_estimate(rng, GROUPS["40 classes"], 1e6)),
    )
    yield Planted(
        "correlation of judged pairs above 0: 200 of 400 words, unrelated",
        lambda rng: not_above(unrelated_pairs(rng, 200, 400)),
        slower=4,
    )


def planted_tests() -> Iterator[Planted]:
    """Yield every test of two models."""

    def mcnemar(rng: Random, items: int) -> float:
        right = chances(rng, 0.7, 1, items)
        a, b = (rng.random((2, items)) < right).astype(float)
        return compare_items(a, b, np.arange(items)).p

    def flips(rng: Random, draw: Any) -> float:
        hits, sizes = draw(rng, 0.7, 60, models=2)
        places = np.repeat(np.arange(60), sizes)
        order = np.arange(len(places)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        a, b = ((order < np.repeat(own, sizes)).astype(float) for own in hits)
        return compare_items(a, b, places, flips=999).p

    def trials(rng: Random, trials: int, seeds: float) -> float:
        a, b = credits_of_trials(rng, 0.7, trials, 100, seeds, models=2)
        return compare_items(a, b, np.arange(100)).p

    def pairs(rng: Random, sections: int) -> float:
        (a, b), places = analogies(rng, sections, models=2)
        return compare_items(a, b, places).p

    def corpora(rng: Random) -> float:
        a, b = captions(rng, 100, models=2)
        return compare_corpora(a, b, np.arange(100), CORPORA["bleu_4"].formula, flips=999).p

    yield from planted_floors()
    yield Planted("McNemar, mid-p: 100 items", lambda rng: mcnemar(rng, 100))
    yield Planted("McNemar, mid-p: 1,000 items", lambda rng: mcnemar(rng, 1000))
    yield Planted(
        "McNemar, mid-p, Holm's rule over 10 tasks: 100 items",
        lambda rng: min(holm([mcnemar(rng, 100) for _ in range(10)])),
    )
    yield Planted("sign flips: 60 clusters of 1 to 11 items", lambda rng: flips(rng, clustered))
    yield Planted("sign flips: 60 clusters of very uneven sizes", lambda rng: flips(rng, uneven))
    for count, seeds in ((10, 0.0), (5, 0.2), (5, 1.0), (3, 0.5)):
        name = f"trials, t: {count} of 100 items, seeds vary by {seeds} logits"
        yield Planted(name, lambda rng, t=count, s=seeds: trials(rng, t, s))
    for sections in (5, 1):
        name = f"analogies, t: {23 * sections} word pairs, 23 a section"
        yield Planted(name, lambda rng, s=sections: pairs(rng, s))
    yield Planted("clustering, t: 200 images of 4 classes", clustering_test, slower=SLOW)
    yield Planted("corpora, swapped: BLEU-4 of 100 captions", corpora)
    yield from planted_layer_tests()


def covered(planted: Planted, draws: int) -> float:
    """Return how often the interval of a draw holds the truth, or the mean over draws."""
    rng = np.random.default_rng(0)
    found = [planted.draw(rng) for _ in range(draws)]
    truth = planted.truth if planted.truth is not None else planted.centre([x.value for x in found])
    return float(np.mean([one.ci95[0] <= truth <= one.ci95[1] for one in found]))


def false(planted: Planted, draws: int) -> float:
    """Return how often a draw of two equal models has p < 0.05."""
    rng = np.random.default_rng(0)
    return float(np.mean([planted.draw(rng) < LEVEL for _ in range(draws)]))


def main() -> None:
    """Measure and write the three tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--items", type=int, default=200)
    parser.add_argument("--only", default="", help="intervals and tests with this in their names")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    tables = (
        ("interval", "covers", planted_intervals(), covered),
        ("test of equal models", "wrong", planted_tests(), false),
    )
    for title, what, several, measure in tables:
        lines = [f"| {title} | draws | {what} |", "|---|---|---|"]
        for planted in (one for one in several if given.only in one.name):
            draws = given.draws // planted.slower
            lines.append(f"| {planted.name} | {draws:,} | {measure(planted, draws):.1%} |")
            print(lines[-1], flush=True)
        write_table(lines, whole=not given.only)
    if not given.only:
        write_table([*standing(given.draws // 2, given.items)])


def write_table(lines: Sequence[str], *, whole: bool = True) -> None:
    """Put a table in the place of that with the same first line in docs/simulations.md.

    If not `whole`, lines replace those with the same first cell, and the others stay. Raises
    ValueError if there is no such table.
    """
    head, found, rest = PAGE.read_text("utf-8").partition(f"\n{lines[0]}\n")
    if not found:
        raise ValueError(f"{PAGE} has no table that begins with {lines[0]}")
    before, after = rest.split("\n\n", 1)
    if not whole:
        new = {line.split("|")[1]: line for line in lines}
        lines = [lines[0], *(new.get(line.split("|")[1], line) for line in before.splitlines())]
    PAGE.write_text("\n".join([head, *lines]) + "\n\n" + after, "utf-8")


def standing(draws: int, items: int) -> Iterator[str]:
    """Yield the lines of the third table, one for each number of models."""
    rng = np.random.default_rng(0)
    yield "| equal models | boards | call one behind | with Holm's rule | find the better one |"
    yield "|---|---|---|---|---|"
    for models in (3, 5, 10, 15):
        equal = [_p_of_others(rng, models, items) for _ in range(draws)]
        before = np.mean([min(holm(p)) < LEVEL for p in equal])
        wrong = np.mean([_corrected(p, models).min() < LEVEL for p in equal])
        told = [_p_of_others(rng, models, items, 0.2) for _ in range(draws // 10)]
        found = np.mean([_corrected(p, models).max() < LEVEL for p in told])
        yield f"| {models} | {draws:,} | {wrong:.1%} | {before:.1%} | {found:.0%} |"


def _corrected(p: list[float], models: int) -> np.ndarray:
    return np.array([among_all_pairs(one, models) for one in p])


def _p_of_others(
    rng: np.random.Generator, models: int, items: int, better: float = 0.0
) -> list[float]:
    """Return p of the best of the data against each other model."""
    right = rng.uniform(0.3, 0.9, items) * np.ones((models, 1))
    right[0] = np.minimum(right[0] + better, 1)
    credit = (rng.random((models, items)) < right).astype(float)
    leader, *others = credit[np.argsort(-credit.mean(1), kind="stable")]
    return [compare_items(leader, other, np.arange(items)).p for other in others]


if __name__ == "__main__":
    main()
