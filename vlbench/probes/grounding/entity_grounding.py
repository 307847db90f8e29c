"""Entity grounding by attention head. ACL 2020, 2020.acl-main.469, section 3.1, figure 3.

Every head is a classifier without parameters: the last sub-word of a phrase's last word chooses the
region that it attends to most, among regions only. The choice is right if it overlaps any gold box
of the phrase by at least 0.5. Departures: tied regions share the choice (in the paper's code the
first wins). In addition to the best head on the images that chose it, `split_half_accuracy` lets
each half of the images choose the head for the other half. `pointing_accuracy` (the centre of the
most attended column is in a gold box) and `attention_on_gold` (the fraction of the attention to the
image that is on gold boxes) choose heads the same way, each by its own measure. Layers and heads
are numbered from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from vlbench.capabilities import Detector, JointAttender
from vlbench.data.coco_files import Phrase
from vlbench.data.records import Column, Split, value_column
from vlbench.engine import Engine
from vlbench.probes.grounding.attention import AttentionReader
from vlbench.probes.grounding.measures import SplitRows, WordTarget, first_images, image_queries
from vlbench.probes.grounding.reports import GroundingQueries, report
from vlbench.results import Outcome, Positive


def entity_grounding(
    model: JointAttender,
    data: SplitRows,
    engine: Engine,
    *,
    split: str = "test",
    images: Positive | None = None,
    detector: Detector | None = None,
    examples: int = 4,
    seed: int = 0,
) -> Outcome:
    """Return how often each head finds the boxes of the phrases that have some.

    Raises TooFewRows if fewer than two images have a phrase with boxes.

    Args:
        split: split that is read.
        images: number of images of the split that are read, from the first on; None reads all.
        detector: detector that proposes regions for pictures without regions; None: a model reads
            regions of the data, or its patches.
        examples: number of words plotted with their attention, spread evenly among the images; 0
            plots none.
        seed: seed that draws the halves of the images.
    """
    rows = first_images(data.splits[split], images)
    phrases = chain.from_iterable(chain.from_iterable(rows["phrases"]))
    counts = {"phrases_without_boxes": sum(not phrase.boxes for phrase in phrases)}
    queries = GroundingQueries(entity_queries(rows), [{}], counts)
    reader = AttentionReader(model, 1, detector)
    return report(reader, rows["picture"], queries, engine, examples=examples, seed=seed)


def entity_queries(rows: Split) -> Column:
    """Return the queries of each image: the last words of the phrases of its captions."""
    words = [[entities(phrases) for phrases in captions] for captions in rows["phrases"]]
    return value_column([image_queries(rows, i, each) for i, each in enumerate(words)])


def entities(phrases: Sequence[Phrase]) -> list[WordTarget]:
    """Return the last word and the boxes of each phrase that has boxes."""
    return [
        WordTarget(0, phrase.stop - 1, tuple(phrase.boxes)) for phrase in phrases if phrase.boxes
    ]
