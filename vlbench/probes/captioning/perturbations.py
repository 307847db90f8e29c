"""Wrong words in captions: what does a matching score read? arXiv:2210.09550, section 5.2.

Three probes, each of which lets a text outscore others for the same image. A trigram model tells
sentences from broken ones: that a score depends on the image, gains from the image alone can say.

`caption_templates` (tables 1 and 7) pours the nouns of a caption into five templates. `accuracy` is
how often the caption outscores all five, or one of them, `selection_rate` how often each of them is
the one that is preferred. Where the paper is silent: a noun that occurs twice is poured once, and a
template ends with the last noun. A caption without a noun is counted and left out.

`noun_count` (figure 3): more words, or more right words? k nouns of an image's references are
poured into each of the templates. `nouns: true` has nouns that the references name, the most
frequent first; `nouns: absent` has as many true ones as the smallest k, and adds nouns that no
reference names. `increase_rate` is how often the largest k outscores the smallest, and `slope` how
much a noun adds. `prefers_reference` is how often the first reference outscores the largest k, over
all templates and for each. Where the paper is silent: nouns are ordered by the number of references
that name them, then by their first place; forms of one noun count once, and the first of them is
poured. Every k has the same images, those with enough nouns; the others are counted. Departure:
the nouns are those of the references, to which the paper adds those of the captioner's own caption.

`noun_replacement` (figure 2): all nouns of a caption are replaced, or all its other words.
`prefers_original` is the share of captions that outscore the text with other words, which does not
depend on the scale of scores; `score_drop` is how much lower that text scores. Where the paper is
silent: words are drawn evenly from those that occur more than five times in the training captions.
A wrong noun is no form of a noun of the caption or of a reference of its image. Positions and
punctuation stay. A caption without a noun, or without another word, is counted and left out. With
`candidates`, texts with wrong nouns are those that a trigram model cannot tell (see `match_foils`);
it always tells other words, which make no sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import Generator

from vlbench.capabilities import (
    ImageTextScorer,
    RegionEncoder,
    count_truncated,
)
from vlbench.data.records import Split
from vlbench.engine import Engine
from vlbench.engine.pair_scores import PairScorer
from vlbench.errors import TooFewRows, counted
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
from vlbench.results import Outcome


class Template(NamedTuple):
    """The words before the first noun, before the second, and before each further one."""

    first: str
    second: str
    further: str


TEMPLATES: Mapping[str, Template] = {
    "uniter": Template("a", "of the", ""),
    "rosita": Template("a image image that is a a", "but a a", "but a a"),
    "vilbert": Template("a", "that the", "at the"),
    "clip": Template("a image image of", "near a", "near a"),
    "lxmert": Template("a", "of a", "of a"),
}


def fill(template: Template, nouns: Sequence[str]) -> str:
    """Return nouns poured into a template. Raises ValueError for none."""
    if not nouns:
        raise ValueError("no noun for a template; leave out captions without nouns")
    openings = [template.first, template.second, *[template.further] * len(nouns)]
    pairs = zip(openings, nouns, strict=False)
    return " ".join(word for pair in pairs for word in pair if word)


# The name of the caption itself among the templates.
CAPTION = "none"


def caption_templates(  # noqa: PLR0913 - the YAML fills all but three
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
    seed: int = 0,
) -> Outcome:
    """Return how often a caption outscores its own nouns in five templates.

    The `captioner` sees regions through the `encoder` (None: those of the data); `captions`, a
    file in COCO's result format, stands in for both, as do first references where these are the
    `originals`. The seed draws the other images. Raises TooFewRows where fewer than two captions
    have a noun.
    """
    tagger, rows = find_nouns(data, engine, nouns), images.of(data)
    texts = find_captions(data, engine, images, originals, captions, captioner, encoder)
    listed = [list(dict.fromkeys(noun for _, noun in own)) for own in tagger.of_each(texts)]
    kept = [i for i, own in enumerate(listed) if own]
    if len(kept) < 2:
        raise TooFewRows(f"{len(kept)} of {len(texts)} captions have a noun")
    asked = [
        {CAPTION: texts[i], **{name: fill(t, listed[i]) for name, t in TEMPLATES.items()}}
        for i in kept
    ]
    alone = TextScorer(data.splits[nouns.split]["captions"])
    contest = compare_texts(PairScorer(model, rows, engine), alone, asked, kept, seed=seed)
    measured = [
        *contest.share(Share("accuracy", {}, [contest.names])),
        contest.match({"template": CAPTION}, CAPTION),
        *chain(*(_measure_template(contest, name) for name in TEMPLATES)),
    ]
    counts = {
        "without_nouns": len(texts) - len(kept),
        "captions_seen_in_training": seen_in_training(
            data.splits[nouns.split], [texts[i] for i in kept]
        ),
    }
    counts |= count_truncated(model, list(chain(*contest.texts)))
    return report(measured, "accuracy", counts, {"texts": contest.table()})


def _measure_template(contest: Contest, name: str) -> Sequence[Measured]:
    """Return how often the caption outscores a template, how often that is preferred, its score."""
    at, rest = {"template": name}, [one for one in contest.names if one != name]
    *against, _ = contest.share(Share("accuracy", at, [[CAPTION, name]]))
    # The same texts are tied as for the caption.
    *selected, _ = contest.share(Share("selection_rate", at, [[name, *rest]]))
    return [*against, *selected, contest.match(at, name)]


REFERENCE = "reference"
KINDS = ("true", "absent")


def noun_count(
    model: ImageTextScorer,
    data: NounRows,
    engine: Engine,
    *,
    k: Sequence[int] = (3, 4, 5, 6, 7),
    nouns: NounSource = TAGGED_CAPTIONS,
    images: Images = TEST_IMAGES,
    seed: int = 0,
) -> Outcome:
    """Return how scores change with the number of nouns, for so many `k`, ascending.

    Raises TooFewRows where fewer than two images have the largest number of nouns, and ValueError
    for other k.
    """
    if len(k) < 2 or list(k) != sorted({*k}) or k[0] < 1:
        raise ValueError(f"k is {list(k)}; wanted two or more numbers of nouns, ascending from 1")
    tagger, rows = find_nouns(data, engine, nouns), images.of(data)
    named = [ranked_nouns(tagger, captions) for captions in rows["captions"]]
    kept = [i for i, nouns_of_image in enumerate(named) if len(nouns_of_image) >= k[-1]]
    if len(kept) < 2:
        raise TooFewRows(f"{counted(len(kept), 'image')} with {k[-1]} nouns in the references")
    numbers = rows["picture"].rows
    asked = []
    for i in kept:
        rng = np.random.default_rng([seed, numbers[i]])
        absent = tagger.draw(k[-1] - k[0], named[i], rng)
        asked.append({REFERENCE: rows["captions"][i][0], **_fill_templates(named[i], absent, k)})
    alone = TextScorer(data.splits[nouns.split]["captions"])
    contest = compare_texts(PairScorer(model, rows, engine), alone, asked, kept, seed=seed)
    counts = {"too_few_nouns": len(named) - len(kept), "clusters": len(kept)}
    counts |= count_truncated(model, list(chain(*contest.texts)))
    artifacts = {"texts": contest.table()}
    return report(list(_measure_numbers(contest, k)), "prefers_reference", counts, artifacts)


def ranked_nouns(tagger: Nouns, references: Sequence[str]) -> list[str]:
    """Return the nouns of references, those that most of them name first, then by first place."""
    by_text = [[noun for _, noun in own] for own in tagger.of_each(references)]
    first: dict[str, str] = {}
    for noun in chain(*by_text):
        first.setdefault(tagger.singular(noun), noun)
    times = Counter(chain(*({tagger.singular(noun) for noun in own} for own in by_text)))
    return [first[one] for one in sorted(first, key=lambda one: -times[one])]


def _fill_templates(
    true: Sequence[str], absent: Sequence[str], k: Sequence[int]
) -> Mapping[str, str]:
    """Return the text of each template, number and kind of nouns, by its name."""
    lists = {"true": true, "absent": [*true[: k[0]], *absent]}
    return {
        _name(template, number, kind): fill(TEMPLATES[template], lists[kind][:number])
        for template in TEMPLATES
        for kind in KINDS
        for number in k
    }


def _name(template: str, number: int, kind: str) -> str:
    return f"{template} {number} {kind}"


def _measure_numbers(contest: Contest, k: Sequence[int]) -> Iterator[Measured]:
    against = {template: [REFERENCE, _name(template, k[-1], "true")] for template in TEMPLATES}
    yield from contest.share(Share("prefers_reference", {}, list(against.values())))
    for template, pair in against.items():
        *shares, _ = contest.share(Share("prefers_reference", {"template": template}, [pair]))
        yield from shares
    yield contest.match({"text": REFERENCE}, REFERENCE)
    for template in TEMPLATES:
        for kind in KINDS:
            yield from _measure_kind(contest, k, {"template": template, "nouns": kind})


def _measure_kind(contest: Contest, k: Sequence[int], at: Mapping[str, str]) -> Iterator[Measured]:
    """Yield the mean scores by number, how often they rise, and their slope."""
    names = [_name(at["template"], number, at["nouns"]) for number in k]
    for number, name in zip(k, names, strict=True):
        yield contest.match({"k": number, **at}, name)
    yield from contest.share(Share("increase_rate", at, [[names[-1], names[0]]]))
    gaps = torch.tensor(k, dtype=torch.float64) - sum(k) / len(k)
    slopes = contest.own[:, [contest.place(name) for name in names]] @ (gaps / gaps.square().sum())
    yield contest.mean("slope", at, slopes, unit="score per noun", chance=0.0)


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
        positions = dict(nouns)
        others = {i: word for i, word in enumerate(words_of(text)) if word and i not in positions}
        return cls(text.split(), positions, others)

    def with_wrong_nouns(self, tagger: Nouns, shown: Iterable[str], rng: Generator) -> str:
        """Return the caption with nouns that are no form of those shown, nor of its own.

        The same noun is replaced by the same one. Raises TooFewRows where there are too few nouns.
        """
        own = dict.fromkeys(self.nouns.values())
        wrong = tagger.draw(len(own), [*shown, *own], rng)
        by_noun = dict(zip(own, wrong, strict=True))
        return self._with_words({i: by_noun[noun] for i, noun in self.nouns.items()})

    def with_other_words(self, tagger: Nouns, rng: Generator) -> str:
        """Return the caption with another word in place of each that is no noun.

        Raises TooFewRows where there is no other word.
        """
        return self._with_words({i: _another(word, tagger, rng) for i, word in self.others.items()})

    def _with_words(self, replaced: Mapping[int, str]) -> str:
        return " ".join(
            _put_in_place(part, replaced[i]) if i in replaced else part
            for i, part in enumerate(self.parts)
        )


def _another(word: str, tagger: Nouns, rng: Generator) -> str:
    """Return a word that is drawn from those that are no nouns, but not this one."""
    words = tagger.other_words
    if not set(words) - {word}:
        raise TooFewRows(f"the training captions have no word to draw in place of '{word}'")
    while (drawn := words[int(rng.integers(len(words)))]) == word:
        pass
    return drawn


def _put_in_place(part: str, word: str) -> str:
    """Return a word with the punctuation around the one that it replaces."""
    before, after = AROUND.findall(part)[0]
    return f"{before}{word}{after}"


# The texts of an image; CHANGED are the words that are replaced.
ORIGINAL, CHANGED = "original", ("nouns", "others")


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
    candidates: int = 1,
    seed: int = 0,
) -> Outcome:
    """Return how often captions outscore themselves with other nouns, or with other words.

    The `captioner` sees regions through the `encoder` (None: those of the data); `captions`, a
    file in COCO's result format, stands in for both, as do first references where these are the
    `originals`. Of so many `candidates`, one text with wrong nouns is chosen. Raises TooFewRows
    where fewer than two captions have a noun and another word.
    """
    tagger, rows = find_nouns(data, engine, nouns), images.of(data)
    texts = find_captions(data, engine, images, originals, captions, captioner, encoder)
    split = [Caption.of(*pair) for pair in zip(texts, tagger.of_each(texts), strict=True)]
    kept = [i for i, caption in enumerate(split) if caption.nouns and caption.others]
    if len(kept) < 2:
        raise TooFewRows(f"{len(kept)} of {len(texts)} captions have a noun and another word")
    drawn = [_draw(split[i], tagger, rows.select([i]), candidates, seed) for i in kept]
    alone, captioned = TextScorer(data.splits[nouns.split]["captions"]), [texts[i] for i in kept]
    wrong = match_foils(alone, captioned, [nouns_of for nouns_of, _ in drawn])
    asked = [
        {ORIGINAL: text, "nouns": foil, "others": others}
        for text, foil, (_, others) in zip(captioned, wrong, drawn, strict=True)
    ]
    contest = compare_texts(PairScorer(model, rows, engine), alone, asked, kept, seed=seed)
    measured = [one for changed in CHANGED for one in _measure_change(contest, changed)]
    without = sum(not caption.nouns for caption in split)
    counts = {"without_nouns": without, "without_other_words": len(split) - without - len(kept)}
    counts["captions_seen_in_training"] = seen_in_training(data.splits[nouns.split], captioned)
    counts |= count_truncated(model, list(chain(*contest.texts)))
    own = contest.match({"replaced": "none"}, ORIGINAL)
    return report([own, *measured], "prefers_original", counts, {"texts": contest.table()})


def _draw(
    caption: Caption, tagger: Nouns, row: Split, candidates: int, seed: int
) -> tuple[list[str], str]:
    """Return a caption with wrong nouns, so many times, and with other words.

    Words are drawn by the seed and the image's number.
    """
    rng = np.random.default_rng([seed, row["picture"].rows[0]])
    shown = [noun for tagged_text in tagger.of_each(row["captions"][0]) for _, noun in tagged_text]
    wrong = caption.with_wrong_nouns(tagger, shown, rng)
    others = caption.with_other_words(tagger, rng)
    more = [caption.with_wrong_nouns(tagger, shown, rng) for _ in range(candidates - 1)]
    return [wrong, *more], others


def _measure_change(contest: Contest, changed: str) -> Sequence[Measured]:
    at = {"replaced": changed}
    drop = contest.own[:, contest.place(ORIGINAL)] - contest.own[:, contest.place(changed)]
    return [
        *contest.share(Share("prefers_original", at, [[ORIGINAL, changed]])),
        contest.match(at, changed),
        contest.mean("score_drop", at, drop, chance=0.0),
    ]
