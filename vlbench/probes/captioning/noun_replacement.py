"""Wrong nouns against wrong other words: what does a matching score read? arXiv:2210.09550, 5.2.

Each caption has two twins: all its nouns are replaced, or all its other words (figure 2).
`prefers_original` is the share of captions that outscore their twin, which does not depend on the
scale of scores; `score_drop` is how much lower the twin scores.

Where the paper is silent: words are drawn evenly from those that occur more than five times in the
training captions. A wrong noun is no form of a noun of the caption or of a reference of its image.
Positions and punctuation stay. A caption without a noun, or without another word, is counted and
left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from vlbench.capabilities import ImageEncoder, ImageTextScorer, count_truncated
from vlbench.data.records import Data, Split
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.items import Measured
from vlbench.probes.captioning.caption_sets import (
    PAPER_CAPTIONER,
    TEST_IMAGES,
    CaptionSource,
    Images,
)
from vlbench.probes.captioning.captioner import Captioner
from vlbench.probes.captioning.nouns import TAGGED_CAPTIONS, Nouns, NounSource, find_nouns, words_of
from vlbench.probes.captioning.pairwise import Contest, Judge, Share, report
from vlbench.results import Outcome

# What stands before and after the word of a part.
AROUND = re.compile(r"^(\W*)\w(?:.*\w)?(\W*)$")


class Caption(NamedTuple):
    """A caption between white space, with the positions of its nouns and of its other words."""

    parts: Sequence[str]
    nouns: Mapping[int, str]
    others: Mapping[int, str]

    @classmethod
    def of(cls, text: str, nouns: Iterable[tuple[int, str]]) -> Caption:
        """Return a caption, of which the nouns are known; punctuation is neither."""
        found = dict(nouns)
        others = {i: word for i, word in enumerate(words_of(text)) if word and i not in found}
        return cls(text.split(), found, others)

    def with_wrong_nouns(self, told: Nouns, shown: Iterable[str], rng: Generator) -> str:
        """Return the caption with nouns that are no form of those shown, nor of its own.

        The same noun is replaced by the same one. Raises TooFewRows where there are too few nouns.
        """
        own = dict.fromkeys(self.nouns.values())
        wrong = told.draw(len(own), [*shown, *own], rng)
        by_noun = dict(zip(own, wrong, strict=True))
        return self._with({i: by_noun[noun] for i, noun in self.nouns.items()})

    def with_other_words(self, told: Nouns, rng: Generator) -> str:
        """Return the caption with another word in place of each that is no noun.

        Raises TooFewRows where there is no other word.
        """
        return self._with({i: _another(word, told, rng) for i, word in self.others.items()})

    def _with(self, replaced: Mapping[int, str]) -> str:
        return " ".join(
            _in_place(part, replaced[i]) if i in replaced else part
            for i, part in enumerate(self.parts)
        )


def _another(word: str, told: Nouns, rng: Generator) -> str:
    """Return a word that is drawn from those that are no nouns, but not this one."""
    words = told.other_words
    if not set(words) - {word}:
        raise TooFewRows(f"the training captions have no word to draw in place of '{word}'")
    while (drawn := words[int(rng.integers(len(words)))]) == word:
        pass
    return drawn


def _in_place(part: str, word: str) -> str:
    """Return a word with the punctuation around the one that it replaces."""
    before, after = AROUND.findall(part)[0]
    return f"{before}{word}{after}"


# The texts of an image; `at` of a twin is what is replaced in it.
ORIGINAL, TWINS = "original", ("nouns", "others")


def noun_replacement(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageTextScorer,
    data: Data,
    engine: Engine,
    *,
    encoders: list[ImageEncoder] | None = None,
    captioner: Captioner = PAPER_CAPTIONER,
    captions: Path | None = None,
    nouns: NounSource = TAGGED_CAPTIONS,
    images: Images = TEST_IMAGES,
    seed: int = 0,
) -> Outcome:
    """Return how often captions outscore themselves with other nouns, or with other words.

    The `captioner` sees images through the `encoders`; `captions`, a file in COCO's result format,
    stands in for both. Raises TooFewRows where fewer than two captions have a noun and another
    word.
    """
    told, rows = find_nouns(data, engine, nouns), images.of(data)
    source = CaptionSource(captions, captioner, encoders or [])
    texts = source.of(data, images, engine)
    split = [Caption.of(*pair) for pair in zip(texts, told.of_each(texts), strict=True)]
    kept = [i for i, caption in enumerate(split) if caption.nouns and caption.others]
    if len(kept) < 2:
        raise TooFewRows(f"{len(kept)} of {len(texts)} captions have a noun and another word")
    asked = [_texts(texts[i], split[i], told, rows.select([i]), seed) for i in kept]
    contest = Judge(model, data, rows, engine, nouns.split).contest(asked, kept, seed=seed)
    measured = [one for twin in TWINS for one in _of_twin(contest, twin)]
    without = sum(not caption.nouns for caption in split)
    counts = {"without_nouns": without, "without_other_words": len(split) - without - len(kept)}
    counts |= count_truncated(model, list(chain(*contest.texts)))
    own = contest.match({"replaced": "none"}, ORIGINAL)
    return report([own, *measured], "prefers_original", counts, {"texts": contest.table()})


def _texts(text: str, caption: Caption, told: Nouns, row: Split, seed: int) -> Mapping[str, str]:
    """Return a caption and its twins; they are drawn by the seed and the number of the image."""
    rng = np.random.default_rng([seed, row["picture"].rows[0]])
    shown = [noun for found in told.of_each(row["captions"][0]) for _, noun in found]
    return {
        ORIGINAL: text,
        "nouns": caption.with_wrong_nouns(told, shown, rng),
        "others": caption.with_other_words(told, rng),
    }


def _of_twin(contest: Contest, twin: str) -> Sequence[Measured]:
    at = {"replaced": twin}
    drop = contest.own[:, contest.place(ORIGINAL)] - contest.own[:, contest.place(twin)]
    return [
        *contest.share(Share("prefers_original", at, [[ORIGINAL, twin]])),
        contest.match(at, twin),
        contest.mean("score_drop", at, drop, chance=0.0),
    ]
