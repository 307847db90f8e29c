"""Statistics of captions, one row per image: table 4 and the metrics of table 2, arXiv:2210.09550.

Beside them, precision and recall of the nouns that the references name: CIDEr is no gate, since a
caption that names nothing and fits every image can score high. Nouns are compared in the singular,
each counted once. A caption without a noun has no precision, and an image whose references name
none no recall: both are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vlbench.metrics.corpus import CORPORA
from vlbench.metrics.statistics import Floats
from vlbench.probes.captioning.controls import TextScorer
from vlbench.probes.captioning.estimates import Formula, counted, ratio
from vlbench.probes.captioning.metric_statistics import Judged
from vlbench.probes.captioning.nouns import Nouns
from vlbench.probes.captioning.patterns import spoken

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
