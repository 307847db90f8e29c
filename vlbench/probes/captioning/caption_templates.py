"""Comparison of captions with their nouns in a template. arXiv:2210.09550, 5.2, tables 1 and 7.

`caption_templates` inserts the nouns of a caption into five templates. `accuracy` is how often the
caption outscores all five templates, or a single template; `selection_rate` is how often each text
is preferred. A trigram model distinguishes sentences from broken sentences, so that only gains from
the image show that a score depends on the image. Not stated in the paper: a noun that occurs twice
is inserted once, and a template ends with the last noun. A caption without nouns is counted and
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from vlbench.asking.pair_scores import PairScorer
from vlbench.capabilities import (
    ImageTextScorer,
    RegionEncoder,
    count_truncated,
)
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.metrics.items import Measured
from vlbench.metrics.language_model import TextScorer
from vlbench.probes.captioning.caption_sets import (
    PAPER_CAPTIONER,
    TEST_IMAGES,
    Images,
    NounRows,
    Originals,
    find_captions,
)
from vlbench.probes.captioning.captioner import Captioner
from vlbench.probes.captioning.matched_foils import seen_in_training
from vlbench.probes.captioning.nouns import TAGGED_CAPTIONS, NounSource, find_nouns
from vlbench.probes.captioning.pairwise import Contest, Share, compare_texts, report
from vlbench.probes.captioning.templates import TEMPLATES, fill
from vlbench.results import Outcome

# The name of the caption among the templates.
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
    """Return how often a caption outscores its nouns in five templates.

    Raises TooFewRows if fewer than two captions have a noun.

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
        seed: seed that draws another image for each image.
    """
    tagger, rows = find_nouns(data, engine, nouns), images.of(data)
    texts = find_captions(data, engine, images, originals, captions, captioner, encoder)
    listed = [list(dict.fromkeys(noun for _, noun in words)) for words in tagger.of_each(texts)]
    kept = [i for i, words in enumerate(listed) if words]
    if len(kept) < 2:
        raise TooFewRows(f"{len(kept)} of {len(texts)} captions have a noun")
    candidates = [
        {CAPTION: texts[i], **{name: fill(t, listed[i]) for name, t in TEMPLATES.items()}}
        for i in kept
    ]
    alone = TextScorer(data.splits[nouns.split]["captions"])
    contest = compare_texts(PairScorer(model, rows, engine), alone, candidates, kept, seed=seed)
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
    """Return how often the caption outscores a template, and the template's rate and score."""
    at, rest = {"template": name}, [kind for kind in contest.names if kind != name]
    *against, _ = contest.share(Share("accuracy", at, [[CAPTION, name]]))
    # Ties are the same as for the caption.
    *selected, _ = contest.share(Share("selection_rate", at, [[name, *rest]]))
    return [*against, *selected, contest.match(at, name)]
