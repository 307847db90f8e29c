"""Comparison of captions with altered captions. arXiv:2210.09550, section 5.2, figure 2.

`noun_replacement` replaces all nouns of a caption, or all its other words. `prefers_original` is
the fraction of captions that outscore the changed text, which does not depend on the scale of
scores; `score_drop` is the mean difference of their scores. Not stated in the paper: words are
drawn uniformly from words that occur more than five times in the training captions. A wrong noun is
not a form of a noun in the caption or in a reference of its image. Positions and punctuation are
unchanged. A caption without nouns, or without other words, is counted and left out. With
`candidates`, texts with wrong nouns are chosen such that a trigram model cannot distinguish them
from captions (see `match_foils`). It can always distinguish texts with other words, which are not
sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from vlbench.asking.pair_scores import PairScorer
from vlbench.capabilities import (
    ImageTextScorer,
    RegionEncoder,
    count_truncated,
)
from vlbench.data.records import Split
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.items import Measured
from vlbench.metrics.language_model import TextScorer, words_of
from vlbench.probes.captioning.caption_sets import (
    PAPER_CAPTIONER,
    TEST_IMAGES,
    Images,
    NounRows,
    Originals,
    find_captions,
)
from vlbench.probes.captioning.captioner import Captioner
from vlbench.probes.captioning.matched_foils import match_foils, seen_in_training
from vlbench.probes.captioning.nouns import TAGGED_CAPTIONS, Nouns, NounSource, find_nouns
from vlbench.probes.captioning.pairwise import Contest, Share, compare_texts, report
from vlbench.results import Outcome, Positive

# Matches the characters before and after the word of a part.
AROUND = re.compile(r"^(\W*)\w(?:.*\w)?(\W*)$")

# The texts of an image; CHANGED names the kinds of replaced words.
ORIGINAL, CHANGED = "original", ("nouns", "others")


class SplitCaption(NamedTuple):
    """A caption split at white space, with the positions of its nouns and of its other words."""

    parts: Sequence[str]
    nouns: Mapping[int, str]
    others: Mapping[int, str]

    @classmethod
    def of(cls, text: str, nouns: Iterable[tuple[int, str]]) -> SplitCaption:
        """Return a caption whose nouns are known; punctuation is not a word."""
        positions = dict(nouns)
        others = {i: word for i, word in enumerate(words_of(text)) if word and i not in positions}
        return cls(text.split(), positions, others)

    def with_wrong_nouns(self, tagger: Nouns, refused: Iterable[str], rng: Generator) -> str:
        """Return the caption with nouns that are not forms of nouns in `refused` or in the caption.

        Equal nouns are replaced by the same noun. Raises TooFewRows for too few nouns.
        """
        nouns = dict.fromkeys(self.nouns.values())
        wrong = tagger.draw(len(nouns), [*refused, *nouns], rng)
        by_noun = dict(zip(nouns, wrong, strict=True))
        return self._with_words({i: by_noun[noun] for i, noun in self.nouns.items()})

    def with_other_words(self, tagger: Nouns, rng: Generator) -> str:
        """Return the caption with each word that is not a noun replaced by another such word.

        Raises TooFewRows if there is no other word.
        """
        return self._with_words({i: _another(word, tagger, rng) for i, word in self.others.items()})

    def _with_words(self, replaced: Mapping[int, str]) -> str:
        return " ".join(
            _put_in_place(part, replaced[i]) if i in replaced else part
            for i, part in enumerate(self.parts)
        )


def _another(word: str, tagger: Nouns, rng: Generator) -> str:
    """Draw a different word that is not a noun."""
    words = tagger.other_words
    if not set(words) - {word}:
        raise TooFewRows(f"the training captions have no word to replace '{word}'")
    while (drawn := words[int(rng.integers(len(words)))]) == word:
        pass
    return drawn


def _put_in_place(part: str, word: str) -> str:
    """Return a word with the punctuation of the word that it replaces."""
    before, after = AROUND.findall(part)[0]
    return f"{before}{word}{after}"


def noun_replacement(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageTextScorer,
    data: NounRows,
    engine: Engine,
    *,
    encoder: RegionEncoder | None = None,
    captioner: Captioner = PAPER_CAPTIONER,
    originals: Originals = "captioner",
    captions: Path | None = None,
    nouns: NounSource = TAGGED_CAPTIONS,
    images: Images = TEST_IMAGES,
    candidates: Positive = 1,
    seed: int = 0,
) -> Outcome:
    """Return how often captions outscore copies with other nouns, or with other words.

    Raises TooFewRows if fewer than two captions have a noun and another word.

    Args:
        encoder: region encoder whose vectors the captioner reads; None: the region vectors of the
            data.
        captioner: settings of the captioner and its training, or the folder of a trained captioner
            (`weights`).
        originals: source of captions: `captioner`, or `references`, the first of each image.
        captions: file in COCO's result format whose captions replace the captioner's; None: no
            file.
        nouns: spaCy `pipeline` (null: tags of the data), nouns to `leave_out`, `split` of training
            captions.
        images: the `split` whose images are read, and how many of the `first` ones (null: all).
        candidates: number of texts with wrong nouns drawn per caption, 1 or more, of which one is
            chosen.
        seed: seed that draws another image for each image, the wrong nouns and the other words.
    """
    tagger, rows = find_nouns(data, engine, nouns), images.of(data)
    texts = find_captions(data, engine, images, originals, captions, captioner, encoder)
    split = [SplitCaption.of(*pair) for pair in zip(texts, tagger.of_each(texts), strict=True)]
    kept = [i for i, caption in enumerate(split) if caption.nouns and caption.others]
    if len(kept) < 2:
        raise TooFewRows(f"{len(kept)} of {len(texts)} captions have a noun and another word")
    drawn = [_draw(split[i], tagger, rows.select([i]), candidates, seed) for i in kept]
    alone, captioned = TextScorer(data.splits[nouns.split]["captions"]), [texts[i] for i in kept]
    wrong = match_foils(alone, captioned, [nouns_of for nouns_of, _ in drawn])
    versions = [
        {ORIGINAL: text, "nouns": foil, "others": others}
        for text, foil, (_, others) in zip(captioned, wrong, drawn, strict=True)
    ]
    contest = compare_texts(PairScorer(model, rows, engine), alone, versions, kept, seed=seed)
    measured = [score for changed in CHANGED for score in _measure_change(contest, changed)]
    without = sum(not caption.nouns for caption in split)
    counts = {"without_nouns": without, "without_other_words": len(split) - without - len(kept)}
    counts["captions_seen_in_training"] = seen_in_training(data.splits[nouns.split], captioned)
    counts |= count_truncated(model, list(chain(*contest.texts)))
    matching = contest.match({"replaced": "none"}, ORIGINAL)
    return report([matching, *measured], "prefers_original", counts, {"texts": contest.table()})


def _draw(
    caption: SplitCaption, tagger: Nouns, row: Split, candidates: int, seed: int
) -> tuple[list[str], str]:
    """Return `candidates` captions with wrong nouns, and one with other words.

    Words are drawn by the seed and the image's number.
    """
    rng = np.random.default_rng([seed, row["picture"].rows[0]])
    nouns = [noun for tagged_text in tagger.of_each(row["captions"][0]) for _, noun in tagged_text]
    wrong = caption.with_wrong_nouns(tagger, nouns, rng)
    others = caption.with_other_words(tagger, rng)
    more = [caption.with_wrong_nouns(tagger, nouns, rng) for _ in range(candidates - 1)]
    return [wrong, *more], others


def _measure_change(contest: Contest, changed: str) -> Sequence[Measured]:
    at = {"replaced": changed}
    drop = contest.published(ORIGINAL) - contest.published(changed)
    return [
        *contest.share(Share("prefers_original", at, [[ORIGINAL, changed]])),
        contest.match(at, changed),
        contest.mean("score_drop", at, drop, chance=0.0),
    ]
