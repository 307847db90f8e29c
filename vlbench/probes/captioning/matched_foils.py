"""Wrong texts that a trigram model cannot distinguish, and texts in its training data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vlbench.data.records import Split
from vlbench.metrics.intervals import Floats
from vlbench.metrics.language_model import TextScorer, caption_words


def seen_in_training(rows: Split, texts: Sequence[str]) -> int:
    """Return the number of texts that are captions of these rows, ignoring case and punctuation."""
    keys = [tuple(caption_words(text)) for text in texts]
    distinct = set(keys)
    read = (tuple(caption_words(text)) for captions in rows["captions"] for text in captions)
    seen = {words for words in read if words in distinct}
    return sum(words in seen for words in keys)


def match_foils(
    scorer: TextScorer, texts: Sequence[str], candidates: Sequence[Sequence[str]]
) -> list[str]:
    """Choose a candidate for each text such that scores do not separate candidates from texts.

    Half of the chosen candidates, or as many as possible, score above their texts, the others
    below; each is the nearest candidate on its side. The assignment of sides minimises the
    differences.
    """
    gaps = [
        (scorer(list(foils)) - scorer([text])).numpy()
        for text, foils in zip(texts, candidates, strict=True)
    ]
    above, below = ([_distances(gap, side) for gap in gaps] for side in (1, -1))
    dearer = [up.min() - down.min() for up, down in zip(above, below, strict=True)]
    half = set(sorted(range(len(texts)), key=dearer.__getitem__)[: len(texts) // 2])
    chosen = []
    for i, foils in enumerate(candidates):
        first, second = (above, below) if i in half else (below, above)
        distances = first[i] if np.isfinite(first[i]).any() else second[i]
        chosen.append(foils[int(distances.argmin())])
    return chosen


def _distances(gaps: Floats, side: int) -> Floats:
    """Return the sizes of the gaps on a side, 1 above and -1 below; infinity on the other side."""
    return np.where(side * gaps >= 0, np.abs(gaps), np.inf)
