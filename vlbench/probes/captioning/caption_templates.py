"""A caption among its own nouns in broken sentences. arXiv:2210.09550, tables 1 and 7.

The nouns of a caption are poured into the five templates of `templates`. `accuracy` is how often
the caption outscores all five, `chosen` how often each of them is the one that is preferred.
Where the paper is silent: a noun that occurs twice is poured once, and a template ends with the
last noun. A caption without a noun is counted and left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from vlbench.capabilities import ImageEncoder, ImageTextScorer, count_truncated
from vlbench.data.records import Data
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
from vlbench.probes.captioning.nouns import TAGGED_CAPTIONS, NounSource, find_nouns
from vlbench.probes.captioning.pairwise import Contest, Judge, Share, report
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
    """Return how often a caption outscores its own nouns in five templates.

    The `captioner` sees images through the `encoders`; `captions`, a file in COCO's result format,
    stands in for both. The seed draws the other images. Raises TooFewRows where fewer than two
    captions have a noun.
    """
    told, rows = find_nouns(data, engine, nouns), images.of(data)
    source = CaptionSource(captions, captioner, encoders or [])
    texts = source.of(data, images, engine)
    found = [list(dict.fromkeys(noun for _, noun in own)) for own in told.of_each(texts)]
    kept = [i for i, own in enumerate(found) if own]
    if len(kept) < 2:
        raise TooFewRows(f"{len(kept)} of {len(texts)} captions have a noun")
    asked = [
        {CAPTION: texts[i], **{name: fill(t, found[i]) for name, t in TEMPLATES.items()}}
        for i in kept
    ]
    contest = Judge(model, data, rows, engine, nouns.split).contest(asked, kept, seed=seed)
    measured = [
        *contest.share(Share("accuracy", {}, [contest.names])),
        contest.match({"template": CAPTION}, CAPTION),
        *chain(*(_of_template(contest, name) for name in TEMPLATES)),
    ]
    counts = {"without_nouns": len(texts) - len(kept)}
    counts |= count_truncated(model, list(chain(*contest.texts)))
    return report(measured, "accuracy", counts, {"texts": contest.table()})


def _of_template(contest: Contest, name: str) -> Sequence[Measured]:
    """Return how often a template is preferred to the rest, and its mean score."""
    at, rest = {"template": name}, [one for one in contest.names if one != name]
    # The same texts are tied as for the caption.
    *shares, _ = contest.share(Share("chosen", at, [[name, *rest]]))
    return [*shares, contest.match(at, name)]
