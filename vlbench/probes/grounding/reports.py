"""The outcome of a grounding probe: scores, the table of all heads, notes, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vlbench.capabilities import count_truncated
from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.items import outcome_of
from vlbench.probes.grounding.attention import AttentionReader, HeadSums, head_sums
from vlbench.probes.grounding.measures import OVERLAP
from vlbench.probes.grounding.pictures import example_picture
from vlbench.probes.grounding.query_items import with_queries
from vlbench.probes.grounding.scores import ACTIVE, QueryGroup, groups_of, head_table, scores_of
from vlbench.results import Outcome

OWN_PATCHES = (
    "the model reads patches, not regions: a region's score is the attention to patches, "
    "weighted by the fraction of each patch that it covers; compare with models that read "
    "regions by pointing"
)
IMAGE_ALONE = (
    "attention is a softmax over the image only: the rule that a head is active above "
    f"{ACTIVE:.0%} does not apply"
)
AMONG_THINGS = (
    f"a head chooses among regions of objects, which overlap a gold box by {OVERLAP:g} or more"
)
NO_CONFIDENCE = "regions have no scores, so there is no baseline of the most confident region"


class GroundingQueries(NamedTuple):
    """The queries of each image, the conditions `at` of each group, and counts of the data."""

    images: Column
    conditions: Sequence[Mapping[str, str]]
    counts: Mapping[str, int]


def report(
    reader: AttentionReader,
    pictures: Column,
    queries: GroundingQueries,
    engine: Engine,
    *,
    examples: int,
    seed: int,
) -> Outcome:
    """Return the outcome of queries, with scores per group.

    Raises TooFewRows if fewer than two images have a query.
    """
    images = sum(any(image["queries"]) for image in queries.images)
    if images < 2:
        raise TooFewRows(f"{counted(images, 'image')} with a word to ask for; two halves need two")
    sums = head_sums(reader, pictures, queries.images, engine)
    groups = groups_of(sums, queries.conditions, seed)
    picture = example_picture(
        reader, pictures, queries.images, engine, groups=groups, examples=examples
    )
    texts = [text for image in queries.images for text in image["texts"]]
    among = [AMONG_THINGS] if any("things" in image for image in queries.images) else []
    counts = _counts(groups) | {"clusters": images} | dict(queries.counts)
    return outcome_of(
        with_queries(scores_of(groups), pictures, queries.images, sums, groups),
        counts | count_truncated(reader.model, texts),
        [_best(groups), *_notes(sums), *_inactive(groups), *among],
        {"heads": head_table(groups), **picture},
    )


def _counts(groups: Sequence[QueryGroup]) -> dict[str, int]:
    """Return the numbers of queries, of queries not read, and of the best heads' ties."""
    n, read, bare = (
        sum(round(float(group.stats[name].sum())) for group in groups)
        for name in ("n", "read", "without_regions")
    )
    ties = sum(group.measures["ties"][:, group.best].sum() for group in groups)
    return {
        "asked": n,
        "without_regions": bare,
        "without_token": n - read - bare,
        "ties": round(float(ties)),
        "choices": read,
    }


def _best(groups: Sequence[QueryGroup]) -> str:
    named = ", ".join(" ".join([*g.at.values(), g.named(g.best)]) for g in groups)
    return f"best head, chosen on the test images, layer-head from 0: {named}"


def _notes(sums: HeadSums) -> list[str]:
    holds: dict[str, Any] = {
        OWN_PATCHES: sums.own_patches,
        IMAGE_ALONE: not sums.whole,
        NO_CONFIDENCE: not sums.has_scores,
    }
    return [note for note, true in holds.items() if true]


def _inactive(groups: Sequence[QueryGroup]) -> list[str]:
    """Return a note of the groups whose heads are all inactive, if this is known."""
    idle = [g for g in groups if g.active is not None and not g.active.any()]
    names = ", ".join("".join(g.at.values()) for g in idle).strip(", ")
    where = f" for {names}" if names else ""
    note = f"no head gives more than {ACTIVE:.0%} of its attention to the image{where}"
    return [note] if idle else []
