"""Ratios of prefixes and patterns, and the pattern found in favourites. arXiv:2210.09550, table 5.

The paper sums up the patterns of all test captions and counts them there. Here, beside its own
patterns, each seed's is found in the favourites of one half of the images, drawn with a seed, and
counted in the other half: in favourites, in captions before, and in references.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from vlbench.metrics.items import Examples, Measured, outcome_of
from vlbench.metrics.statistics import Floats
from vlbench.probes.captioning.caption_scores import FAVOURITES, KINDS, measured_share
from vlbench.probes.captioning.patterns import (
    PATTERNS,
    PREFIXES,
    Pattern,
    Tagged,
    has_pattern,
    has_prefix,
    mine,
    spoken,
)
from vlbench.results import Outcome

# Of each kind of captions.
MOST = 10

SCHEMA = pa.schema(
    {
        "captions": pa.string(),
        "rank": pa.int32(),
        "word": pa.string(),
        "part_of_speech": pa.string(),
        "count": pa.int64(),
        "share": pa.float64(),
    }
)


def unigram_table(captions: Mapping[str, Iterable[Tagged]]) -> pa.Table:
    """Return the ten most frequent words of each kind of captions; punctuation is no word."""
    rows = [row for kind, tagged in captions.items() for row in _rows(kind, tagged)]
    return pa.Table.from_pylist(rows, SCHEMA)


def _rows(kind: str, captions: Iterable[Tagged]) -> list[dict[str, Any]]:
    """Return the rows of one kind; of equally frequent words, the first by name comes first."""
    pairs = Counter(pair for tagged in captions for pair in spoken(tagged))
    words: Counter[str] = Counter()
    tags: dict[str, Counter[str]] = {}
    for (word, tag), count in pairs.items():
        words[word] += count
        tags.setdefault(word, Counter())[tag] += count
    total = words.total()
    first = sorted(words.items(), key=lambda item: (-item[1], item[0]))[:MOST]
    return [
        {
            "captions": kind,
            "rank": rank,
            "word": word,
            "part_of_speech": _most(tags[word]),
            "count": count,
            "share": count / total,
        }
        for rank, (word, count) in enumerate(first, 1)
    ]


def _most(counts: Counter[str]) -> str:
    return min(counts, key=lambda tag: (-counts[tag], tag))


# Tagged captions [seeds][N] by their kind; one seed of those that no seed changes.
TaggedKinds = Mapping[str, Sequence[Sequence[Tagged]]]

# Whether something holds of a caption.
Holds = Callable[[Tagged], bool]

# What the found pattern is called among those of the paper.
OWN = "own"


def pattern_part(kinds: TaggedKinds, examples: Examples, *, seed: int) -> Outcome:
    """Return the ratios of all prefixes and patterns, and a note of those found."""
    own, patterns = own_ratios(kinds, examples, seed=seed)
    names = [f"seed {i}: {pattern.name}" for i, pattern in enumerate(patterns)]
    told = "the pattern of favourites, found in half of the images, is "
    notes = [told + "; ".join(names)] if names else []
    return outcome_of([*paper_ratios(kinds, examples), *own], notes=notes)


def paper_ratios(kinds: TaggedKinds, examples: Examples) -> list[Measured]:
    """Return how often captions have the paper's prefixes and patterns."""
    rules: list[tuple[str, str, Callable[..., bool]]] = [
        *(("prefix_ratio", name, has_prefix) for name in PREFIXES),
        *(("pattern_ratio", name, has_pattern) for name in PATTERNS),
    ]
    return [
        measured_share(
            metric,
            {"captions": kind, "pattern": name},
            _credit(kinds[kind], [partial(rule, name=name)]),
            examples,
        )
        for kind in KINDS
        for metric, name, rule in rules
    ]


def own_ratios(
    kinds: TaggedKinds, examples: Examples, *, seed: int
) -> tuple[list[Measured], list[Pattern]]:
    """Return the ratios of the patterns found in the favourites of each seed, and the patterns.

    Both are empty where no favourite of the half where they are looked for has a word.
    """
    order = np.random.default_rng(seed).permutation(len(examples.ids)).tolist()
    half, rest = order[: len(order) // 2], sorted(order[len(order) // 2 :])
    searched = [[of_seed[i] for i in half] for of_seed in kinds[FAVOURITES]]
    if not all(any(spoken(one) for one in captions) for captions in searched):
        return [], []
    patterns = [mine(captions) for captions in searched]
    judged = Examples(*([part[i] for i in rest] if part else () for part in examples))
    rules: dict[str, list[Holds]] = {
        "prefix_ratio": [pattern.begins for pattern in patterns],
        "pattern_ratio": [pattern.describes for pattern in patterns],
    }
    ratios = []
    for kind in KINDS:
        captions = [[of_seed[i] for i in rest] for of_seed in kinds[kind]]
        for metric, holds in rules.items():
            at = {"captions": kind, "pattern": OWN}
            ratios.append(measured_share(metric, at, _credit(captions, holds), judged))
    return ratios, patterns


def _credit(captions: Sequence[Sequence[Tagged]], holds: Sequence[Holds]) -> Floats:
    """Return what holds of captions, [seeds, N]: one rule or one set of captions does for all."""
    seeds = max(len(captions), len(holds))
    pairs = [(captions[s % len(captions)], holds[s % len(holds)]) for s in range(seeds)]
    return np.array([[rule(one) for one in of_seed] for of_seed, rule in pairs], np.float64)
