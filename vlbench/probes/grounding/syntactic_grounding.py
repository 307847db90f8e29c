"""Syntactic grounding by attention head. ACL 2020, 2020.acl-main.469, section 3.1, table 2.

For each dependency between an entity's last word w1 and another word w2, in either direction, w2
should look at the boxes of w1's phrase; w2 may be in the same phrase. The rest is as in
`entity_grounding`, with scores per relation: whether a head is active depends on its mean attention
from this relation's w2. The relations with the most pairs are scored. Not stated in the paper: w1
is the last word of its phrase, and the attention of w2 is the attention of its last sub-word.
Relations are Stanford's; relations of a parser are converted. Departure: in
`syntactic_grounding_things` a head chooses only among the regions of things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from vlbench.capabilities import Detector, JointAttender
from vlbench.data.coco_files import Arc, Phrase
from vlbench.data.dependencies import Token, word_arcs
from vlbench.data.records import Split, value_column
from vlbench.data.spacy_pipelines import load_pipeline
from vlbench.data.words import word_spans
from vlbench.engine import Engine
from vlbench.errors import DataError, TooFewRows
from vlbench.probes.grounding.attention import AttentionReader
from vlbench.probes.grounding.measures import SplitRows, WordTarget, first_images, image_queries
from vlbench.probes.grounding.reports import GroundingQueries, report
from vlbench.results import Outcome, Positive


def parse_captions(rows: Split, parser: str | None, engine: Engine) -> list[list[list[Arc]]]:
    """Return Stanford's arcs of every caption of every image, parsed by the named pipeline.

    Raises DataError if `parser` is None, DataAbsent if it is not installed.
    """
    if parser is None:
        raise DataError("the captions have no arcs; give `parser`, the name of a spaCy pipeline")
    texts = [text for captions in rows["captions"] for text in captions]
    spans = [
        word_spans(text, words)
        for captions, splits in zip(rows["captions"], rows["words"], strict=True)
        for text, words in zip(captions, splits, strict=True)
    ]
    spacy, pipeline = load_pipeline(parser)
    # The identity of the pipeline, like a model's: spaCy is optional, and imported by name.
    key = {
        "what": "arcs",
        "parser": [parser, str(pipeline.meta.get("version")), str(spacy.__version__)],
        "texts": texts,
        "spans": spans,
    }
    parses = engine.once(key, lambda: _arcs(pipeline, texts, spans))
    arcs = iter([[Arc(*arc) for arc in caption] for caption in parses])
    return [[next(arcs) for _ in captions] for captions in rows["captions"]]


def _arcs(
    pipeline: Any, texts: Sequence[str], spans: Iterable[list[tuple[int, int]]]
) -> list[list[list[Any]]]:
    """Return the arcs of each text as plain lists."""
    return [
        [list(arc) for arc in word_arcs(_tokens(parse), words)]
        for parse, words in zip(pipeline.pipe(texts), spans, strict=True)
    ]


def _tokens(parse: Any) -> list[Token]:
    return [Token(t.idx, t.idx + len(t), t.tag_, t.dep_, t.head.i) for t in parse]


Pair = tuple[str, int, tuple[int, ...]]  # the relation, w2, and w1's boxes


def syntactic_grounding(  # noqa: PLR0913 - the YAML fills all but three
    model: JointAttender,
    data: SplitRows,
    engine: Engine,
    *,
    split: str = "test",
    images: Positive | None = None,
    relations: Positive = 10,
    parser: str | None = None,
    detector: Detector | None = None,
    examples: int = 4,
    seed: int = 0,
) -> Outcome:
    """Return how often each head finds an entity from a dependent word, for frequent relations.

    Raises TooFewRows if fewer than two images have a pair, and DataError if the data have no arcs
    and no parser is given.

    Args:
        split: split that is read.
        images: number of images of the split that are read, from the first on; None reads all.
        relations: number of most frequent relations that are scored, 1 or more.
        parser: installed spaCy pipeline that parses captions of data without arcs; None: the data
            have arcs.
        detector: detector that proposes regions for pictures without regions; None: a model reads
            regions of the data, or its patches.
        examples: number of words plotted with their attention, spread evenly among the images; 0
            plots none.
        seed: seed that draws the halves of the images.
    """
    rows = first_images(data.splits[split], images)
    queries = _queries(rows, relations, parser, engine)
    reader = AttentionReader(model, len(queries.conditions), detector)
    return report(reader, rows["picture"], queries, engine, examples=examples, seed=seed)


def syntactic_grounding_things(  # noqa: PLR0913 - the YAML fills all but three
    model: JointAttender,
    data: SplitRows,
    engine: Engine,
    *,
    split: str = "test",
    images: Positive | None = None,
    relations: Positive = 10,
    parser: str | None = None,
    detector: Detector | None = None,
    examples: int = 4,
    seed: int = 0,
) -> Outcome:
    """Return the same scores if each head chooses only among the regions of things.

    A region is of a thing if it overlaps a gold box of the image by at least 0.5; the model reads
    all regions. So a head that only separates things from background, like a detector's confidence,
    is at chance.

    Args:
        split: split that is read.
        images: number of images of the split that are read, from the first on; None reads all.
        relations: number of most frequent relations that are scored, 1 or more.
        parser: installed spaCy pipeline that parses captions of data without arcs; None: the data
            have arcs.
        detector: detector that proposes regions for pictures without regions; None: a model reads
            regions of the data, or its patches.
        examples: number of words plotted with their attention, spread evenly among the images; 0
            plots none.
        seed: seed that draws the halves of the images.
    """
    rows = first_images(data.splits[split], images)
    queries = _queries(rows, relations, parser, engine, among_things=True)
    reader = AttentionReader(model, len(queries.conditions), detector)
    return report(reader, rows["picture"], queries, engine, examples=examples, seed=seed)


def _queries(
    rows: Split, relations: int, parser: str | None, engine: Engine, *, among_things: bool = False
) -> GroundingQueries:
    """Return the queries of the most frequent relations, each a group."""
    arcs = rows["arcs"] if "arcs" in rows.columns else parse_captions(rows, parser, engine)
    targets = [
        [pairs(*caption) for caption in zip(*image, strict=True)]
        for image in zip(arcs, rows["phrases"], strict=True)
    ]
    counted = Counter(pair[0] for image in targets for caption in image for pair in caption)
    names = [name for name, _ in sorted(counted.items(), key=lambda n: (-n[1], n[0]))][:relations]
    if not names:
        raise TooFewRows("no word with boxes has a dependency")
    words = [[_words(caption, names) for caption in image] for image in targets]
    rarer = sum(counted.values()) - sum(counted[n] for n in names)
    images = [
        image_queries(rows, i, each, among_things=among_things) for i, each in enumerate(words)
    ]
    conditions = [{"relation": name} for name in names]
    return GroundingQueries(value_column(images), conditions, {"pairs_of_rarer_relations": rarer})


def pairs(arcs: Sequence[Arc], phrases: Sequence[Phrase]) -> list[Pair]:
    """Return relation, other word and boxes of each arc at a phrase's last word."""
    boxes = {phrase.stop - 1: tuple(phrase.boxes) for phrase in phrases if phrase.boxes}
    ends = [
        (a.relation, *end) for a in arcs for end in ((a.head, a.dependent), (a.dependent, a.head))
    ]
    return [(relation, other, boxes[word]) for relation, word, other in ends if word in boxes]


def _words(caption: Sequence[Pair], names: Sequence[str]) -> list[WordTarget]:
    return [WordTarget(names.index(r), word, boxes) for r, word, boxes in caption if r in names]
