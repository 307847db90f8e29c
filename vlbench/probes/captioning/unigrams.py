"""The most frequent words of captions, with parts of speech. arXiv:2210.09550, figure 4."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from vlbench.probes.captioning.patterns import Tagged, spoken

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
