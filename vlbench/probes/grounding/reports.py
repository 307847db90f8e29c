"""The outcome of a grounding probe: scores, the table of all heads, notes, and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vlbench.capabilities import Picture, count_truncated
from vlbench.data.records import Column, value_column
from vlbench.data.words import last_token
from vlbench.drawing.sheets import save_figure
from vlbench.engine import Engine
from vlbench.errors import TooFewRows, counted
from vlbench.metrics.boxes import iou
from vlbench.metrics.items import Answers, Examples, Measured, at_text, outcome_of
from vlbench.probes.grounding.attention import AttentionReader, HeadSums, head_sums, with_proposals
from vlbench.probes.grounding.measures import (
    JUDGED,
    OVERLAP,
    ImageQueries,
    Query,
    column_coverage,
    of_things,
)
from vlbench.probes.grounding.scores import (
    ACTIVE,
    SPLIT_HALF,
    Group,
    groups_of,
    head_table,
    scores_of,
)
from vlbench.results import Outcome, Score

GOLD, RIGHT, WRONG, ATTENTION = "#ffffff", "#1a9850", "#d73027", "#fdae61"
LEGEND = "dashed: gold; orange: regions, the stronger the more attention; green or red: the choice"


@dataclass(frozen=True)
class ExampleReader:
    """Reads the attention of one head from one word."""

    reader: AttentionReader

    def read(
        self, pictures: Sequence[Picture], examples: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Tensor] | None]:
        """Return each example's attention; None where its word has no token, or there is no region.

        It has the `weights` [P] of the `boxes` [P, 4] that the head chooses from, and the `total`
        of its attention to the image. The weight of a region over a model's own patches is that of
        the parts of patches that it covers.
        """
        detector = self.reader.detector
        given = with_proposals(pictures, detector.detect if detector else None)
        return [self._read(*pair) for pair in zip(given, examples, strict=True)]

    def _read(self, picture: Picture, example: Mapping[str, Any]) -> dict[str, Tensor] | None:
        if picture.regions is None or not len(picture.regions.boxes):
            return None
        (attention,) = self.reader.model.attend([picture], [example["text"]])
        token = last_token(attention.spans, *example["span"])
        if token is None:
            return None
        weights = attention.weights.flatten(0, 1)[example["head"], token].cpu().double()
        row = {"weights": weights, "boxes": attention.boxes.cpu(), "total": weights.sum()}
        regions = picture.regions.boxes.cpu()
        coverage = column_coverage(row["boxes"], regions)
        if coverage is not None:
            row |= {"weights": weights @ coverage, "boxes": regions}
        kept = of_things(row["boxes"], example.get("things"))
        return row | {name: row[name][kept] for name in ("weights", "boxes")}


def example_picture(
    reader: AttentionReader,
    pictures: Column,
    queries: Column,
    engine: Engine,
    *,
    groups: Sequence[Group],
    examples: int,
) -> dict[str, Path]:
    """Return a picture of so many examples, drawn by the main process; empty for no examples.

    They do not depend on the results: they are spread evenly among the images, one of each group in
    turn, and show the first query of their image.
    """
    chosen = choose_examples(queries, groups, examples)
    if not chosen:
        return {}
    shown = pictures.select([example["image"] for example in chosen])
    attention = engine.map(ExampleReader(reader).read, shown, value_column(chosen))
    if not engine.is_main:
        return {}
    return {"examples": draw(list(shown), chosen, attention)}


def choose_examples(
    queries: Sequence[ImageQueries] | Column, groups: Sequence[Group], examples: int
) -> list[dict[str, Any]]:
    """Return so many queried words, as plain values, each with the best head of its group."""
    chosen = []
    for k in range(examples):
        group = groups[k % len(groups)]
        images = np.flatnonzero(group.sizes)
        image = int(images[k * len(images) // examples])
        one = queries[image]
        j, query = next(
            (j, Query(*query))
            for j, of_caption in enumerate(one["queries"])
            for query in of_caption
            if query[0] == group.number
        )
        chosen.append(
            {
                "image": image,
                "text": one["texts"][j],
                "span": [query.start, query.stop],
                "gold": one["targets"][query.target],
                "things": one.get("things"),
                "head": group.best,
                "title": " ".join([*group.at.values(), f"head {group.named(group.best)}"]),
            }
        )
    return chosen


def draw(
    pictures: Sequence[Picture],
    examples: Sequence[Mapping[str, Any]],
    attention: Sequence[Mapping[str, Tensor] | None],
) -> Path:
    """Return a new PNG of the examples, one panel each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - slow to import
    from matplotlib.figure import Figure  # noqa: PLC0415

    across = min(len(examples), 4)
    down = -(-len(examples) // across)
    figure = Figure(figsize=(3.4 * across, 4.3 * down), layout="constrained")
    FigureCanvasAgg(figure)
    figure.supxlabel(LEGEND, fontsize=8)
    panels = figure.subplots(down, across, squeeze=False).flat
    for panel in panels:
        panel.axis("off")
    # The last row may have more panels than there are examples left.
    for panel, picture, example, one in zip(
        figure.axes, pictures, examples, attention, strict=False
    ):
        _panel(panel, picture, example, one)
    return save_figure(figure)


def _panel(
    panel: Any,
    picture: Picture,
    example: Mapping[str, Any],
    attention: Mapping[str, Tensor] | None,
) -> None:
    sized = picture.regions or picture.image
    assert sized
    width, height = sized.size
    if picture.image is not None:
        panel.imshow(picture.image, extent=(0, width, height, 0))
    panel.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    start, stop = example["span"]
    marked = f"{example['text'][:start]}[{example['text'][start:stop]}]{example['text'][stop:]}"
    lines = [*wrap(marked, 46), example["title"]]
    # Dollar signs of a caption are no formula.
    panel.set_title("\n".join(lines), fontsize=7, parse_math=False)
    if attention is not None:
        _attention(panel, attention, example["gold"])
    for box in example["gold"]:
        _frame(panel, box, "black", 2.8)
        _frame(panel, box, GOLD, 1.4, linestyle="--")


def _attention(
    panel: Any, attention: Mapping[str, Tensor], gold: Sequence[Sequence[float]]
) -> None:
    """Frame every box, the stronger the more attention it has, and the first with the most."""
    weights, boxes = attention["weights"], attention["boxes"]
    strengths = (weights / weights.max().clamp(min=1e-12)).tolist()
    pairs = zip(boxes.tolist(), strengths, strict=True)
    for box, strength in sorted(pairs, key=lambda pair: pair[1]):
        _frame(panel, box, ATTENTION, 1.2, alpha=0.15 + 0.85 * strength)
        _fill(panel, box, strength)
    best = boxes[int(weights.argmax())]
    right = bool((iou(best[None], torch.tensor(gold)) >= OVERLAP).any())
    _frame(panel, best.tolist(), RIGHT if right else WRONG, 2.6)
    fraction = float(weights.max() / attention["total"].clamp(min=1e-12))
    label = f"{fraction:.0%} of the attention to the image"
    panel.text(0.5, -0.03, label, transform=panel.transAxes, ha="center", va="top", fontsize=7)


def _frame(panel: Any, box: Sequence[float], colour: str, width: float, **style: Any) -> None:
    left, top, right, bottom = box
    outline = [left, right, right, left, left], [top, top, bottom, bottom, top]
    panel.plot(*outline, color=colour, linewidth=width, clip_on=False, **style)


def _fill(panel: Any, box: Sequence[float], strength: float) -> None:
    left, top, right, bottom = box
    panel.fill_between([left, right], top, bottom, color=ATTENTION, alpha=0.45 * strength, lw=0)


class _Asked(NamedTuple):
    """The queries of one group: of which image, under which number there, and of which word."""

    images: list[int]
    numbers: list[int]
    words: list[str]


def with_queries(
    scores: Sequence[Score],
    pictures: Column,
    queries: Column,
    credit: Sequence[Tensor | None],
    groups: Sequence[Group],
) -> list[Measured]:
    """Return scores with the queries that they are over, those of chosen heads.

    `credit` is [Q, layers, heads, JUDGED] for each image.
    """
    images = pictures.examples()
    known: dict[tuple[str, str], Any] = {}
    for group in groups:
        asked = _collect(queries, group.number)
        pairs = list(zip(asked.images, asked.numbers, strict=True))
        examples = Examples(
            [f"{images.ids[i]}/{k}" for i, k in pairs],
            [images.digests[i] for i in asked.images],
            [images.ids[i] for i in asked.images],
        )
        words = sorted(set(asked.words))
        right = [words.index(word) for word in asked.words]
        said = Answers(words, np.full(len(right), -1), right)
        for metric, (measure, heads) in _judges(group).items():
            own = [_credit(credit[i], k, measure, heads[i]) for i, k in pairs]
            known[metric, at_text(group.at)] = examples, own, said
    return [Measured(one, *known.get((one.metric, at_text(one.at)), ())) for one in scores]


def _collect(queries: Column, group: int) -> _Asked:
    found = _Asked([], [], [])
    for i, one in enumerate(queries):
        asked = [
            (Query(*query), text)
            for text, of_text in zip(one["texts"], one["queries"], strict=True)
            for query in of_text
        ]
        for k, (query, text) in enumerate(asked):
            if query.group == group:
                found.images.append(i)
                found.numbers.append(k)
                found.words.append(text[query.start : query.stop])
    return found


def _judges(group: Group) -> dict[str, tuple[int, Sequence[Sequence[int]]]]:
    """Return the measure of each score of a group, and the heads that judge each image."""
    images = len(group.sizes)
    groups: dict[str, tuple[int, Sequence[Sequence[int]]]] = {
        SPLIT_HALF.get(name, name): (JUDGED.index(name), halves.judges)
        for name, halves in group.halves.items()
    }
    groups["best_head_accuracy"] = (0, [[group.best]] * images)
    if group.best_active is not None:
        groups["best_active_head_accuracy"] = (0, [[group.best_active]] * images)
    return groups


def _credit(of_image: Tensor | None, query: int, measure: int, heads: Sequence[int]) -> float:
    """Return the mean credit of a query under some heads; 0 where the image has no regions."""
    if of_image is None:
        return 0.0
    by_head = of_image[query, ..., measure].flatten()
    return float(by_head[list(heads)].double().mean())


OWN_PATCHES = (
    "the model looks at patches of its own: a region scores the attention to patches, each times "
    "the share of it that the region covers; compare with models that read regions by pointing"
)
IMAGE_ALONE = (
    "attention is a softmax over the image alone: the rule that a head is active above "
    f"{ACTIVE:.0%} does not apply"
)
AMONG_THINGS = (
    f"a head chooses among regions of things, which overlap a gold box by {OVERLAP:g} or more"
)
NO_CONFIDENCE = "regions have no scores: there is no baseline of the most confident region"


class Queries(NamedTuple):
    """The queries of each image, the conditions `at` of each group, and counts of the data."""

    images: Column
    conditions: Sequence[Mapping[str, str]]
    counts: Mapping[str, int]


def report(
    reader: AttentionReader,
    pictures: Column,
    queries: Queries,
    engine: Engine,
    *,
    examples: int,
    seed: int,
) -> Outcome:
    """Return the outcome of queries, each group with its own scores.

    Raises TooFewRows where fewer than two images have a query.
    """
    images = sum(any(one["queries"]) for one in queries.images)
    if images < 2:
        raise TooFewRows(f"{counted(images, 'image')} with a word to ask for; two halves need two")
    sums = head_sums(reader, pictures, queries.images, engine)
    groups = groups_of(sums, queries.conditions, seed)
    picture = example_picture(
        reader, pictures, queries.images, engine, groups=groups, examples=examples
    )
    texts = [text for one in queries.images for text in one["texts"]]
    counts = _counts(groups) | {"clusters": images} | dict(queries.counts)
    return outcome_of(
        with_queries(scores_of(groups), pictures, queries.images, sums.queries, groups),
        counts | count_truncated(reader.model, texts),
        [_best(groups), *_notes(sums), *_inactive(groups), *_among(queries.images)],
        {"heads": head_table(groups), **picture},
    )


def _counts(groups: Sequence[Group]) -> dict[str, int]:
    """Return the numbers of queries, of those not read, and of the best heads' ties."""
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


def _best(groups: Sequence[Group]) -> str:
    named = ", ".join(" ".join([*g.at.values(), g.named(g.best)]) for g in groups)
    return f"best head, chosen where it is tested, layer-head from 0: {named}"


def _notes(sums: HeadSums) -> list[str]:
    holds: dict[str, Any] = {
        OWN_PATCHES: sums.own_patches,
        IMAGE_ALONE: not sums.whole,
        NO_CONFIDENCE: not sums.has_scores,
    }
    return [note for note, true in holds.items() if true]


def _among(queries: Column) -> list[str]:
    return [AMONG_THINGS] if any("things" in one for one in queries) else []


def _inactive(groups: Sequence[Group]) -> list[str]:
    """Return a note of the groups whose heads are all inactive, where attention can tell."""
    idle = [g for g in groups if g.active is not None and not g.active.any()]
    names = ", ".join("".join(g.at.values()) for g in idle).strip(", ")
    where = f" for {names}" if names else ""
    return [f"no head gives the image over {ACTIVE:.0%} of its attention{where}"] if idle else []
