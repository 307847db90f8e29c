"""Statistics of captions, one row per image, and their estimates over the seeds of a captioner.

The statistics of table 4 and the metrics of table 2, arXiv:2210.09550. In addition, precision and
recall of the nouns in the references: CIDEr is not sufficient, because a caption without nouns that
fits every image can have a high CIDEr. Nouns are compared in the singular, each counted once. A
caption without nouns has no precision, an image whose references have no nouns has no recall; both
are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from vlbench.engine import Engine
from vlbench.errors import DataAbsent
from vlbench.metrics.captions import CaptionMetrics, Captions, CaptionScore, treebank_words
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.evaluated import Value
from vlbench.metrics.intervals import (
    Ends,
    Estimate,
    Floats,
    Formula,
    estimate_of_sums,
    plain_ends,
    ratio,
)
from vlbench.metrics.items import join_items
from vlbench.metrics.java import coco_caption, find_java, find_spice
from vlbench.metrics.language_model import TextScorer
from vlbench.probes.captioning.nouns import Nouns, without_punctuation
from vlbench.results import Outcome
from vlbench.system.digests import digest

# Numbers of words, and the unit of each.
WORDS = ("length", "nouns", "unique_nouns")
FRACTIONS = ("noun_precision", "noun_recall")


def join_outcomes(parts: Sequence[Outcome], artifacts: Mapping[str, Any]) -> Outcome:
    """Return the outcome of all parts; of a count in several parts, the first."""
    counts: dict[str, int] = {}
    for part in reversed(parts):
        counts |= part.counts
    return Outcome(
        scores=[score for part in parts for score in part.scores],
        counts=counts,
        artifacts={name: artifact for name, artifact in artifacts.items() if artifact is not None},
        notes=[note for part in parts for note in part.notes],
        items=join_items([part.items for part in parts if part.items is not None]),
    )


class OverSeeds(NamedTuple):
    """A score: its estimate, or only its value, and its value per seed."""

    estimate: Estimate | Value
    draws: list[float]

    def score(self) -> dict[str, Any]:
        """Return the fields of a Score; a single seed has no draws."""
        return self.estimate._asdict() | {"draws": self.draws if len(self.draws) > 1 else []}


def with_ones(values: ArrayLike) -> Floats:
    """Return (value, 1) for each of [..., N] values, [..., N, 2]; the ratio of sums is the mean."""
    numbers = np.asarray(values, np.float64)
    return np.stack([numbers, np.ones(numbers.shape)], -1)


def over_seeds(
    statistics: Floats,
    formula: Formula,
    *,
    less: Floats | None = None,
    ends: Ends = plain_ends,
) -> OverSeeds | None:
    """Return the mean over seeds of a formula of the sums over N images of [seeds, N, S].

    `less` are the statistics [N, S] of the same images whose score is subtracted. None if a seed's
    score is undefined. Standard error, interval and errors raised are as in `estimate_of_sums`.
    """
    seeds, _, width = statistics.shape
    parts = [*statistics, *([] if less is None else [less])]
    table = np.concatenate(parts, 1)

    def values(sums: Floats) -> Floats:
        """Return the value of each seed, [seeds, ...], from sums [..., parts * S]."""
        by_part = formula(np.moveaxis(sums.reshape(*sums.shape[:-1], len(parts), width), -2, 0))
        return by_part[:seeds] - (0.0 if less is None else by_part[seeds])

    by_seed = values(table.sum(0))
    if np.isnan(by_seed).any() and np.isfinite(table).all():
        return None
    draws: list[float] = by_seed.tolist()
    estimate = estimate_of_sums(table, lambda sums: values(sums).mean(0), by_seed=draws, ends=ends)
    return OverSeeds(estimate, draws)


def value_alone(statistics: Floats, *, less: Floats | None = None) -> OverSeeds:
    """Return the mean over seeds of a number that all images share, [seeds, N, 1]."""
    by_seed = statistics[:, 0, 0] - (0.0 if less is None else less[0, 0])
    return OverSeeds(Value(float(by_seed.mean())), by_seed.tolist())


class JudgedCaptions(NamedTuple):
    """One caption for each of N images, and the references that it is judged by."""

    captions: Sequence[str]
    references: Sequence[Sequence[str]]


def available_metrics(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names without SPICE if its jars are absent, and a note on this.

    Call this before hours of training: it raises SpecError for an unknown metric, DataAbsent if
    Java or a package is absent, and DataError for a metric that cannot be loaded.
    """
    kept, notes = list(names), []
    if "spice" in names:
        try:
            find_spice()
        except DataAbsent as error:
            kept.remove("spice")
            notes.append(f"SPICE is left out: {error}")
    # A captioner is always chosen by CIDEr.
    coco_caption()
    if kept:
        find_java()
    # METEOR only needs Java, and its process takes seconds to start.
    if quick := [name for name in kept if name != "meteor"]:
        with CaptionMetrics(quick):
            pass
    return kept, notes


def metric_statistics(
    sets: Mapping[str, JudgedCaptions], names: Sequence[str], engine: Engine
) -> dict[str, dict[str, Floats]]:
    """Return the statistics [N, S] of each metric for each set of captions.

    A corpus score has its statistics, other metrics (score, 1) per image, and metrics of
    `evaluate`, which have a single number for all images, (score) per image. Only the main process
    computes them.
    """
    if not names or not sets:
        return {name: {} for name in sets}
    identity = digest([[name, [list(part) for part in group]] for name, group in sets.items()])
    key = {"what": "metrics of captions", "sets": identity, "metrics": list(names)}
    tables = engine.once(key, lambda: _compute_metrics(sets, names))
    return {
        name: {metric: values.numpy() for metric, values in metrics.items()}
        for name, metrics in tables.items()
    }


def _compute_metrics(
    sets: Mapping[str, JudgedCaptions], names: Sequence[str]
) -> dict[str, dict[str, torch.Tensor]]:
    # One Java process tokenises the captions and references of all sets.
    texts = dict.fromkeys(
        text
        for judged in sets.values()
        for of_image in (judged.captions, *judged.references)
        for text in of_image
    )
    words = dict(zip(texts, treebank_words(list(texts)), strict=True))
    with CaptionMetrics(names, words=lambda some: [words[text] for text in some]) as metrics:
        return {name: _statistics(captions, metrics) for name, captions in sets.items()}


def _statistics(judged: JudgedCaptions, metrics: CaptionMetrics) -> dict[str, torch.Tensor]:
    captions: Captions = {i: [caption] for i, caption in enumerate(judged.captions)}
    scores = metrics(captions, dict(enumerate(judged.references)))
    return {
        name: torch.from_numpy(_table(name, one, len(captions))) for name, one in scores.items()
    }


def _table(name: str, score: CaptionScore, images: int) -> Floats:
    if name in CORPORA:
        return score.statistics
    if not score.statistics.shape[1]:
        return np.full((images, 1), score.estimate.value)
    return with_ones(score.statistics[:, 0])


def formula_of(metric: str) -> Formula:
    """Return the formula of a score from sums of its statistics: a mean, or a corpus score."""
    return CORPORA[metric].formula if metric in CORPORA else ratio


def caption_statistics(judged: JudgedCaptions, nouns: Nouns, text: TextScorer) -> dict[str, Floats]:
    """Return the statistics of length, nouns and perplexity of captions."""
    words = [without_punctuation(tagged) for tagged in nouns.tagged(judged.captions)]
    of_captions = [[noun for _, noun in own] for own in nouns.of_each(judged.captions)]
    numbers: dict[str, Sequence[float]] = {
        "length": [len(of_caption) for of_caption in words],
        "nouns": [len(caption) for caption in of_captions],
        "unique_nouns": [len(set(words)) for words in of_captions],
    }
    statistics = {name: with_ones(values) for name, values in numbers.items()}
    statistics |= noun_fractions(judged, nouns)
    statistics["perplexity"] = text.statistics(judged.captions)
    return statistics


def noun_fractions(judged: JudgedCaptions, nouns: Nouns) -> dict[str, Floats]:
    """Return the statistics of precision and recall of the nouns of captions."""
    of_captions = [[noun for _, noun in tagged] for tagged in nouns.of_each(judged.captions)]
    named = _named_nouns(nouns, judged.references)
    return noun_statistics([_singular(nouns, some) for some in of_captions], named)


def noun_statistics(
    captions: Sequence[frozenset[str]], references: Sequence[frozenset[str]]
) -> dict[str, Floats]:
    """Return (fraction, 1) for each image, or zeros if undefined, [N, 2], of both scores."""
    both = [own & named for own, named in zip(captions, references, strict=True)]
    wholes = {"noun_precision": captions, "noun_recall": references}
    return {
        name: np.array(
            [
                (len(right) / len(whole), 1.0) if whole else (0.0, 0.0)
                for right, whole in zip(both, of_images, strict=True)
            ],
            np.float64,
        ).reshape(-1, 2)
        for name, of_images in wholes.items()
    }


def _named_nouns(nouns: Nouns, references: Sequence[Sequence[str]]) -> list[frozenset[str]]:
    """Return the nouns in the references of each image."""
    nouns_of_texts = iter(nouns.of_each([text for texts in references for text in texts]))
    named = [[noun for _ in texts for _, noun in next(nouns_of_texts)] for texts in references]
    return [_singular(nouns, some) for some in named]


def _singular(nouns: Nouns, words: Sequence[str]) -> frozenset[str]:
    return frozenset(nouns.singular(word) for word in set(words))
