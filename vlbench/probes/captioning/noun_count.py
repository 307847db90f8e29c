"""Effect of the number of true and absent nouns on scores. arXiv:2210.09550, section 5.2, figure 3.

In `noun_count`, k nouns of an image's references are inserted into each of the templates. `nouns:
true` uses nouns in the references, the most frequent first; `nouns: absent` uses as many true nouns
as the smallest k, and adds nouns that no reference contains. `increase_rate` is how often the
largest k outscores the smallest, and `slope` is the gain in score per noun. `prefers_reference` is
how often the first reference outscores the largest k, over all templates and per template. Not
stated in the paper: nouns are ordered by the number of references that contain them, then by first
position; forms of a noun count once, and the first form is inserted. Every k has the same images,
all images with enough nouns; the others are counted. Departure: nouns are from the references only,
while the paper adds the nouns of the captioner's caption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import torch

from vlbench.asking.pair_scores import PairScorer
from vlbench.capabilities import (
    ImageTextScorer,
    count_truncated,
)
from vlbench.engine import Engine
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.items import Measured
from vlbench.metrics.language_model import TextScorer
from vlbench.probes.captioning.caption_sets import (
    TEST_IMAGES,
    Images,
    NounRows,
)
from vlbench.probes.captioning.nouns import TAGGED_CAPTIONS, Nouns, NounSource, find_nouns
from vlbench.probes.captioning.pairwise import Contest, Share, compare_texts, report
from vlbench.probes.captioning.templates import TEMPLATES, fill
from vlbench.results import Outcome, Positive

REFERENCE = "reference"


KINDS = ("true", "absent")


def noun_count(
    model: ImageTextScorer,
    data: NounRows,
    engine: Engine,
    *,
    k: Sequence[Positive] = (3, 4, 5, 6, 7),
    nouns: NounSource = TAGGED_CAPTIONS,
    images: Images = TEST_IMAGES,
    seed: int = 0,
) -> Outcome:
    """Return how scores change with the number of nouns, for each of `k`.

    Raises TooFewRows if fewer than two images have the largest number of nouns, and ValueError for
    invalid `k`.

    Args:
        k: numbers of nouns in a text: two or more, ascending, from 1 on.
        nouns: spaCy `pipeline` (null: tags of the data), nouns to `leave_out`, `split` of training
            captions.
        images: the `split` whose images are read, and how many of the `first` ones (null: all).
        seed: seed that draws another image for each image, and nouns that an image does not show.
    """
    if len(k) < 2 or list(k) != sorted({*k}) or k[0] < 1:
        raise ValueError(f"k is {list(k)}; give two or more numbers of nouns, ascending from 1")
    tagger, rows = find_nouns(data, engine, nouns), images.of(data)
    named = [ranked_nouns(tagger, captions) for captions in rows["captions"]]
    kept = [i for i, nouns_of_image in enumerate(named) if len(nouns_of_image) >= k[-1]]
    if len(kept) < 2:
        raise TooFewRows(f"{counted(len(kept), 'image')} with {k[-1]} nouns in the references")
    numbers = rows["picture"].rows
    texts = []
    for i in kept:
        rng = np.random.default_rng([seed, numbers[i]])
        absent = tagger.draw(k[-1] - k[0], named[i], rng)
        texts.append({REFERENCE: rows["captions"][i][0], **_fill_templates(named[i], absent, k)})
    alone = TextScorer(data.splits[nouns.split]["captions"])
    contest = compare_texts(PairScorer(model, rows, engine), alone, texts, kept, seed=seed)
    counts = {"too_few_nouns": len(named) - len(kept), "clusters": len(kept)}
    counts |= count_truncated(model, list(chain(*contest.texts)))
    artifacts = {"texts": contest.table()}
    return report(list(_measure_numbers(contest, k)), "prefers_reference", counts, artifacts)


def ranked_nouns(tagger: Nouns, references: Sequence[str]) -> list[str]:
    """Return the nouns of references, ordered by number of references, then by first position."""
    by_text = [[noun for _, noun in tagged] for tagged in tagger.of_each(references)]
    first: dict[str, str] = {}
    for noun in chain(*by_text):
        first.setdefault(tagger.singular(noun), noun)
    times = Counter(chain(*({tagger.singular(noun) for noun in nouns} for nouns in by_text)))
    return [first[word] for word in sorted(first, key=lambda word: -times[word])]


def _fill_templates(
    true: Sequence[str], absent: Sequence[str], k: Sequence[int]
) -> Mapping[str, str]:
    """Return the text for each template, number and kind of nouns, by name."""
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
    """Yield the mean scores by number of nouns, how often they rise, and their slope."""
    names = [_name(at["template"], number, at["nouns"]) for number in k]
    for number, name in zip(k, names, strict=True):
        yield contest.match({"k": number, **at}, name)
    yield from contest.share(Share("increase_rate", at, [[names[-1], names[0]]]))
    gaps = torch.tensor(k, dtype=torch.float64) - sum(k) / len(k)
    scores = torch.stack([contest.published(name) for name in names], 1)
    slopes = scores @ (gaps / gaps.square().sum())
    yield contest.mean("slope", at, slopes, unit="score per noun", chance=0.0)
