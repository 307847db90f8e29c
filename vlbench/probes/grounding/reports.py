"""What a grounding probe returns: scores, the table of all heads, notes, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vlbench.data.records import Column
from vlbench.engine import Engine
from vlbench.errors import TooFewRows
from vlbench.probes.generalization.zero_shot import truncated
from vlbench.probes.grounding.attention import Reader, Tally, tally
from vlbench.probes.grounding.examples import drawn
from vlbench.probes.grounding.scores import ACTIVE, Group, groups_of, head_table, scores_of
from vlbench.results import Outcome

OWN_PATCHES = (
    "the model looks at patches of its own: a region scores the attention to patches, each times "
    "the share of it that the region covers; compare with models that read regions by pointing"
)
IMAGE_ALONE = (
    "attention is a softmax over the image alone: the rule that a head is active above "
    f"{ACTIVE:.0%} does not apply"
)
NO_CONFIDENCE = "regions have no scores: there is no baseline of the most confident region"


def report(  # noqa: PLR0913 - what two probes have ready
    reader: Reader,
    pictures: Column,
    asked: Column,
    engine: Engine,
    *,
    conditions: Sequence[Mapping[str, str]],
    counts: Mapping[str, int],
    examples: int,
    seed: int,
) -> Outcome:
    """Return the outcome of what is asked, its groups told apart by `conditions`."""
    held = sum(any(one["queries"]) for one in asked)
    if held < 2:
        raise TooFewRows(f"{held} images have a word to ask for; two halves need two")
    seen = tally(reader, pictures, asked, engine)
    groups = groups_of(seen, conditions, seed)
    picture = drawn(reader, pictures, asked, engine, groups=groups, examples=examples)
    texts = [text for one in asked for text in one["texts"]]
    return Outcome(
        scores=scores_of(groups),
        counts=_counts(groups) | {"clusters": held} | dict(counts) | truncated(reader.model, texts),
        artifacts={"heads": head_table(groups), **picture},
        notes=[_best(groups), *_notes(seen), *_inactive(groups)],
    )


def _counts(groups: Sequence[Group]) -> dict[str, int]:
    """Return how much was asked, how much of it in vain, and the ties of each best head."""
    asked, read, bare = (
        sum(round(float(group.stats[name].sum())) for group in groups)
        for name in ("n", "read", "without_regions")
    )
    ties = sum(group.measures["ties"][:, group.best].sum() for group in groups)
    return {
        "asked": asked,
        "without_regions": bare,
        "without_token": asked - read - bare,
        "ties": round(float(ties)),
    }


def _best(groups: Sequence[Group]) -> str:
    named = ", ".join(" ".join([*g.at.values(), g.named(g.best)]) for g in groups)
    return f"best head, chosen where it is tested, layer-head from 0: {named}"


def _notes(seen: Tally) -> list[str]:
    said: dict[str, Any] = {
        OWN_PATCHES: seen.own,
        IMAGE_ALONE: not seen.whole,
        NO_CONFIDENCE: not seen.confident,
    }
    return [note for note, holds in said.items() if holds]


def _inactive(groups: Sequence[Group]) -> list[str]:
    """Return what has no best active head, though attention could tell."""
    idle = [g for g in groups if g.active is not None and not g.active.any()]
    names = ", ".join("".join(g.at.values()) for g in idle).strip(", ")
    where = f" for {names}" if names else ""
    return [f"no head gives the image over {ACTIVE:.0%} of its attention{where}"] if idle else []
