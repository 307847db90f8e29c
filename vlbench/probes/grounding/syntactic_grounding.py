"""Syntactic grounding by attention head. ACL 2020, 2020.acl-main.469, section 3.1, table 2.

Of each dependency between an entity's last word w1 and another word w2, in either direction, w2
should look at the boxes of w1's phrase; w2 may be in the same phrase. The rest is as for
`entity_grounding`, relation by relation: the filter for heads that look at the image is the mean
over this relation's w2. The relations are those with the most such pairs. Where the paper is
silent: w1 is the last word of its phrase, and w2 looks with its last sub-word. Relations are
Stanford's; those of a parser are turned into them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vlbench.capabilities import Detector, JointAttender
from vlbench.data.annotations import Arc, Phrase
from vlbench.data.records import Data, value_column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.grounding.asking import Wanted, asked_of, first_images
from vlbench.probes.grounding.attention import Reader
from vlbench.probes.grounding.parsing import parsed
from vlbench.probes.grounding.reports import report
from vlbench.results import Outcome

Pair = tuple[str, int, tuple[int, ...]]  # the relation, w2, and w1's boxes


def syntactic_grounding(  # noqa: PLR0913 - the YAML fills all but three
    model: JointAttender,
    data: Data,
    engine: Engine,
    *,
    split: str = "test",
    images: int | None = None,
    relations: int = 10,
    parser: str | None = None,
    detector: Detector | None = None,
    examples: int = 4,
    seed: int = 0,
) -> Outcome:
    """Return how often each head finds an entity from its neighbour, for the commonest relations.

    `parser` names an installed spaCy pipeline, for data without arcs. Of the split, the first
    `images` are read; of them, `examples` are drawn. `detector` is as for entities. Raises
    TooFewRows where fewer than two images have a pair, and DataError for data without arcs and no
    parser.
    """
    rows = first_images(data.splits[split], images)
    arcs = rows["arcs"] if "arcs" in rows.columns else parsed(rows, parser, engine)
    found = [
        [pairs(*caption) for caption in zip(*image, strict=True)]
        for image in zip(arcs, rows["phrases"], strict=True)
    ]
    counted = Counter(pair[0] for image in found for caption in image for pair in caption)
    names = [name for name, _ in sorted(counted.items(), key=lambda n: (-n[1], n[0]))][:relations]
    if not names:
        raise TooFewRows("no word with boxes has a dependency")
    wanted = [[_wanted(caption, names) for caption in image] for image in found]
    asked = value_column([asked_of(rows, i, each) for i, each in enumerate(wanted)])
    return report(
        Reader(model, len(names), detector),
        rows["picture"],
        asked,
        engine,
        conditions=[{"relation": name} for name in names],
        counts={"pairs_of_rarer_relations": sum(counted.values()) - sum(counted[n] for n in names)},
        examples=examples,
        seed=seed,
    )


def pairs(arcs: Sequence[Arc], phrases: Sequence[Phrase]) -> list[Pair]:
    """Return the relation, the neighbour and the boxes of each arc at a phrase's last word."""
    boxes = {phrase.stop - 1: tuple(phrase.boxes) for phrase in phrases if phrase.boxes}
    ends = [
        (a.relation, *end) for a in arcs for end in ((a.head, a.dependent), (a.dependent, a.head))
    ]
    return [(relation, other, boxes[word]) for relation, word, other in ends if word in boxes]


def _wanted(caption: Sequence[Pair], names: Sequence[str]) -> list[Wanted]:
    return [Wanted(names.index(r), word, boxes) for r, word, boxes in caption if r in names]
