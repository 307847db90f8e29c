"""Metrics of captions against references, told apart into words and scored by one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch

from vlbench.digests import digest
from vlbench.engine import Engine
from vlbench.errors import DataAbsent
from vlbench.metrics.captions import CaptionMetrics, Captions, CaptionScore
from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.statistics import Floats
from vlbench.metrics.text.java import coco_caption, find_java
from vlbench.metrics.text.spice import find_spice
from vlbench.metrics.text.words import treebank_words
from vlbench.probes.captioning.estimates import counted


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
