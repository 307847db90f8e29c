"""Entity grounding by attention head. ACL 2020, 2020.acl-main.469, section 3.1, figure 3.

Every head is a classifier without parameters: the last sub-word of a phrase's last word chooses the
region that it attends to most, among regions only; right where that overlaps any gold box of the
phrase by at least 0.5. Departures: regions tied for the most share the choice (in the paper's code
the lowest wins), and beside the best head on the images that chose it, `split_half_accuracy` has
each half of the images choose the other's. So have `pointing_accuracy` (the centre of the column
attended to most lies in a gold box) and `attention_on_gold` (its share of the attention to the
image), each by its own measure. Layers and heads count from 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from vlbench.capabilities import Detector, JointAttender
from vlbench.data.annotations import Phrase
from vlbench.data.records import Data, value_column
from vlbench.engine import Engine
from vlbench.probes.grounding.asking import Wanted, asked_of, first_images
from vlbench.probes.grounding.attention import Reader
from vlbench.probes.grounding.reports import report
from vlbench.results import Outcome


def entity_grounding(  # noqa: PLR0913 - the YAML fills all but three
    model: JointAttender,
    data: Data,
    engine: Engine,
    *,
    split: str = "test",
    images: int | None = None,
    detector: Detector | None = None,
    examples: int = 4,
    seed: int = 0,
) -> Outcome:
    """Return how often each head finds the boxes of the phrases that have some.

    Of the split, the first `images` are read; of them, `examples` are drawn. `detector` proposes
    regions for pictures without: for a model that looks at patches of its own. Raises TooFewRows
    where fewer than two images have a phrase with boxes.
    """
    rows = first_images(data.splits[split], images)
    wanted = [[entities(phrases) for phrases in captions] for captions in rows["phrases"]]
    asked = value_column([asked_of(rows, i, each) for i, each in enumerate(wanted)])
    unboxed = sum(not p.boxes for captions in rows["phrases"] for said in captions for p in said)
    return report(
        Reader(model, 1, detector),
        rows["picture"],
        asked,
        engine,
        conditions=[{}],
        counts={"phrases_without_boxes": unboxed},
        examples=examples,
        seed=seed,
    )


def entities(phrases: Sequence[Phrase]) -> list[Wanted]:
    """Return the last word of each phrase that has boxes, with these."""
    return [Wanted(0, phrase.stop - 1, tuple(phrase.boxes)) for phrase in phrases if phrase.boxes]
