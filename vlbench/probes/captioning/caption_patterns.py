"""What captions does a matching model like? arXiv:2210.09550, sections 3 and 4, tables 2, 4 and 5.

A captioner is trained on captions, then on a model's matching score; the captions that it then
gives test images are the model's *favourites*, one set per seed. `prefers_reference` is the share
of images whose first reference outscores the favourite: it does not depend on the scale of scores,
a model that scores all alike gets one half, and one that can be led away from human captions is
seen to be. Its controls are the same texts for another test image, and a trigram model of the
training captions in the model's place. Departures: favourites of several seeds count, and beside
the paper's patterns stand those found in favourites of other images.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from vlbench.capabilities import ImageEncoder, ImageTextScorer, count_truncated
from vlbench.data.records import Data
from vlbench.engine import Engine
from vlbench.metrics.captions import CAPTION_METRICS
from vlbench.probes.captioning.candidates import TEST_IMAGES, Images
from vlbench.probes.captioning.caption_artifacts import caption_table, example_table
from vlbench.probes.captioning.captioner import Captioner
from vlbench.probes.captioning.controls import TextScorer
from vlbench.probes.captioning.matching import matching_part
from vlbench.probes.captioning.metric_statistics import available_metrics
from vlbench.probes.captioning.nouns import TAGGED_CAPTIONS, NounSource, find_nouns
from vlbench.probes.captioning.parts import Part, outcome
from vlbench.probes.captioning.pattern_scores import pattern_part
from vlbench.probes.captioning.score_kinds import score_kind
from vlbench.probes.captioning.scoring import PairScorer
from vlbench.probes.captioning.subjects import Plan, collect
from vlbench.probes.captioning.telling import telling_part
from vlbench.probes.captioning.training import history_table, training_part
from vlbench.probes.captioning.unigrams import unigram_table
from vlbench.results import Outcome


def caption_patterns(  # noqa: PLR0913 - the YAML fills all but three
    model: ImageTextScorer,
    data: Data,
    engine: Engine,
    *,
    captioner: Captioner,
    encoders: list[ImageEncoder],
    images: Images = TEST_IMAGES,
    seeds: int = 3,
    seed: int = 0,
    nouns: NounSource = TAGGED_CAPTIONS,
    metrics: Sequence[str] = CAPTION_METRICS,
) -> Outcome:
    """Return what a model's favourite captions are like, and whether it prefers them to humans'.

    `images` are captioned. `encoders` are those that the captioner sees
    images through, never the model. `seeds` are so many trainings on the model's score, from `seed`
    on. Raises TooFewRows for fewer than two images.
    """
    plan = Plan(captioner, encoders, images, seeds, seed)
    # What may not be here is asked for before hours of training.
    found, (names, notes) = find_nouns(data, engine, nouns), available_metrics(metrics)
    subjects, trained = collect(model, data, engine, plan)
    text = TextScorer(data.splits["train"])
    scorer = PairScorer(model, subjects.rows, engine)
    matched, scores = matching_part(scorer, subjects, text, score_kind(model), seed=seed)
    tagged = {kind: [found.tagged(of) for of in seeds] for kind, seeds in subjects.kinds.items()}
    texts = [text for seeds in subjects.kinds.values() for captions in seeds for text in captions]
    return outcome(
        [
            matched,
            training_part(trained),
            telling_part(subjects, found, text, names, engine),
            pattern_part(tagged, subjects.examples, seed=seed),
            Part([], counts=count_truncated(model, texts), notes=notes),
        ],
        {
            "captions": caption_table(subjects, scores),
            "unigrams": unigram_table({kind: chain(*seeds) for kind, seeds in tagged.items()}),
            "examples": example_table(subjects, scores, seed=seed),
            "history": history_table(trained),
        },
    )
