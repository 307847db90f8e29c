"""Statistics of captions, one row per image: table 4 and the metrics of table 2, arXiv:2210.09550.

Beside them, precision and recall of the nouns that the references name: CIDEr is no gate, since a
caption that names nothing and fits every image can score high. Nouns are compared in the singular,
each counted once. A caption without a noun has no precision, and an image whose references name
none no recall: both are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from vlbench.digests import digest
from vlbench.engine import Engine
from vlbench.errors import DataAbsent
from vlbench.metrics.captions import CaptionMetrics, Captions, CaptionScore, treebank_words
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.statistics import Floats
from vlbench.metrics.text.java import coco_caption, find_java, find_spice
from vlbench.probes.captioning.controls import TextScorer
from vlbench.probes.captioning.estimates import Formula, counted, ratio
from vlbench.probes.captioning.nouns import Nouns
from vlbench.probes.captioning.patterns import spoken


class Judged(NamedTuple):
    """One caption for each of N images, and the references that it is judged by."""

    captions: Sequence[str]
    references: Sequence[Sequence[str]]


def available_metrics(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names without SPICE where its jars are not here, and a note that says so.

    To be called before what takes hours: raises SpecError for a name that is no metric, DataAbsent
    where Java or a package is not there, and DataError for a metric that cannot be loaded.
    """
    kept, notes = list(names), []
    if "spice" in names:
        try:
            find_spice(None)
        except DataAbsent as error:
            kept.remove("spice")
            notes.append(f"SPICE is left out: {error}")
    # A captioner is chosen by CIDEr, whatever is reported of it.
    coco_caption()
    if kept:
        find_java()
    # METEOR's process takes seconds to start, and needs nothing else.
    if quick := [name for name in kept if name != "meteor"]:
        with CaptionMetrics(quick):
            pass
    return kept, notes


def metric_statistics(
    sets: Mapping[str, Judged], names: Sequence[str], engine: Engine
) -> dict[str, dict[str, Floats]]:
    """Return the statistics [N, S] of each metric for each set of captions.

    Those of a corpus score are its own, others are (score, 1) of each image, and of a metric of
    `evaluate`, which has one number for all images, (score) of each. The main process computes
    them, once.
    """
    if not names or not sets:
        return {name: {} for name in sets}
    told = digest([[name, [list(part) for part in one]] for name, one in sets.items()])
    key = {"what": "metrics of captions", "sets": told, "metrics": list(names)}
    found = engine.once(key, lambda: _computed(sets, names))
    return {
        name: {metric: values.numpy() for metric, values in metrics.items()}
        for name, metrics in found.items()
    }


def _computed(
    sets: Mapping[str, Judged], names: Sequence[str]
) -> dict[str, dict[str, torch.Tensor]]:
    # One process of Java tells the words apart, for captions and references of all sets.
    texts = dict.fromkeys(
        text
        for one in sets.values()
        for of_image in (one.captions, *one.references)
        for text in of_image
    )
    words = dict(zip(texts, treebank_words(list(texts)), strict=True))
    with CaptionMetrics(names, words=lambda some: [words[text] for text in some]) as metrics:
        return {name: _statistics(one, metrics) for name, one in sets.items()}


def _statistics(judged: Judged, metrics: CaptionMetrics) -> dict[str, torch.Tensor]:
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
    return counted(score.statistics[:, 0])


# Numbers of words, and the unit of each.
WORDS = ("length", "nouns", "unique_nouns")
FRACTIONS = ("noun_precision", "noun_recall")


def formula_of(metric: str) -> Formula:
    """Return what makes a score of the sums of its statistics: a mean, or that of a corpus."""
    return CORPORA[metric].formula if metric in CORPORA else ratio


def caption_statistics(judged: Judged, nouns: Nouns, text: TextScorer) -> dict[str, Floats]:
    """Return the statistics of length, nouns and perplexity of captions."""
    told = [spoken(tagged) for tagged in nouns.tagged(judged.captions)]
    of_captions = [[noun for _, noun in found] for found in nouns.of_each(judged.captions)]
    numbers: dict[str, Sequence[float]] = {
        "length": [len(words) for words in told],
        "nouns": [len(found) for found in of_captions],
        "unique_nouns": [len(set(found)) for found in of_captions],
    }
    found = {name: counted(values) for name, values in numbers.items()}
    found |= noun_statistics(
        [_singular(nouns, some) for some in of_captions], _named(nouns, judged.references)
    )
    found["perplexity"] = text.statistics(judged.captions)
    return found


def noun_statistics(
    captions: Sequence[frozenset[str]], references: Sequence[frozenset[str]]
) -> dict[str, Floats]:
    """Return (fraction, 1) for each image, or zeros where there is none, [N, 2], of both scores."""
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


def _named(nouns: Nouns, references: Sequence[Sequence[str]]) -> list[frozenset[str]]:
    """Return the nouns that the references of each image name."""
    found = iter(nouns.of_each([text for texts in references for text in texts]))
    named = [[noun for _ in texts for _, noun in next(found)] for texts in references]
    return [_singular(nouns, some) for some in named]


def _singular(nouns: Nouns, words: Sequence[str]) -> frozenset[str]:
    return frozenset(nouns.singular(word) for word in set(words))
