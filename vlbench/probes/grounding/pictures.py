"""Pictures of examples: the attention of the best heads, with the gold boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vlbench.capabilities import Picture
from vlbench.data.records import Column, value_column
from vlbench.data.words import last_token
from vlbench.drawing.sheets import save_figure
from vlbench.engine import Engine
from vlbench.metrics.boxes import iou
from vlbench.probes.grounding.attention import AttentionReader, with_proposals
from vlbench.probes.grounding.measures import (
    OVERLAP,
    ImageQueries,
    Query,
    column_coverage,
    of_things,
    require_attention,
)
from vlbench.probes.grounding.scores import QueryGroup

GOLD, RIGHT, WRONG, ATTENTION = "#ffffff", "#1a9850", "#d73027", "#fdae61"


LEGEND = "dashed: gold; orange: regions, the stronger the more attention; green or red: the choice"


@dataclass(frozen=True)
class ExampleReader:
    """Reads the attention of a head from a word."""

    reader: AttentionReader

    def read(
        self, pictures: Sequence[Picture], examples: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Tensor] | None]:
        """Return each example's attention; None if its word has no token, or there is no region.

        It has the `weights` [P] of the `boxes` [P, 4] that the head chooses from, and the `total`
        attention to the image. If columns are patches, the weight of a region is the sum over
        patches of attention times the covered fraction.
        """
        detector = self.reader.detector
        inputs = with_proposals(pictures, detector.detect if detector else None)
        return [self._read(*pair) for pair in zip(inputs, examples, strict=True)]

    def _read(self, picture: Picture, example: Mapping[str, Any]) -> dict[str, Tensor] | None:
        if picture.regions is None or not len(picture.regions.boxes):
            return None
        (attention,) = self.reader.model.attend([picture], [example["text"]])
        require_attention(attention, example["text"])
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
    groups: Sequence[QueryGroup],
    examples: int,
) -> dict[str, Path]:
    """Return a picture of `examples` examples, drawn by the main process; empty for 0.

    The choice does not depend on the results: examples are spread evenly among the images, take
    groups in turn, and show the first query of their image.
    """
    chosen = choose_examples(queries, groups, examples)
    if not chosen:
        return {}
    images = pictures.select([example["image"] for example in chosen])
    attention = engine.map(ExampleReader(reader).read, images, value_column(chosen))
    if not engine.is_main:
        return {}
    return {"examples": draw(list(images), chosen, attention)}


def choose_examples(
    queries: Sequence[ImageQueries] | Column, groups: Sequence[QueryGroup], examples: int
) -> list[dict[str, Any]]:
    """Return `count` queried words, as plain values, each with the best head of its group."""
    chosen = []
    for k in range(examples):
        group = groups[k % len(groups)]
        images = np.flatnonzero(group.sizes)
        image = int(images[k * len(images) // examples])
        of_image = queries[image]
        j, query = next(
            (j, Query(*query))
            for j, of_caption in enumerate(of_image["queries"])
            for query in of_caption
            if query[0] == group.number
        )
        chosen.append(
            {
                "image": image,
                "text": of_image["texts"][j],
                "span": [query.start, query.stop],
                "gold": of_image["targets"][query.target],
                "things": of_image.get("things"),
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
    # The last row may have unused panels.
    for panel, picture, example, weights in zip(
        figure.axes, pictures, examples, attention, strict=False
    ):
        _panel(panel, picture, example, weights)
    return save_figure(figure)


def _panel(
    panel: Any, picture: Picture, example: Mapping[str, Any], attention: Mapping[str, Tensor] | None
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
    # Dollar signs of a caption do not mark a formula.
    panel.set_title("\n".join(lines), fontsize=7, parse_math=False)
    if attention is not None:
        _attention(panel, attention, example["gold"])
    for box in example["gold"]:
        _frame(panel, box, "black", 2.8)
        _frame(panel, box, GOLD, 1.4, linestyle="--")


def _attention(
    panel: Any, attention: Mapping[str, Tensor], gold: Sequence[Sequence[float]]
) -> None:
    """Frame every box by its attention, and highlight the first with the most attention."""
    weights, boxes = attention["weights"], attention["boxes"]
    strengths = (weights / weights.max().clamp(min=1e-12)).tolist()
    pairs = zip(boxes.tolist(), strengths, strict=True)
    for box, strength in sorted(pairs, key=lambda pair: pair[1]):
        _frame(panel, box, ATTENTION, 1.2, alpha=0.15 + 0.85 * strength)
        left, top, right, bottom = box
        fill = {"color": ATTENTION, "alpha": 0.45 * strength, "lw": 0}
        panel.fill_between([left, right], top, bottom, **fill)
    best = boxes[int(weights.argmax())]
    is_right = bool((iou(best[None], torch.tensor(gold)) >= OVERLAP).any())
    _frame(panel, best.tolist(), RIGHT if is_right else WRONG, 2.6)
    fraction = float(weights.max() / attention["total"].clamp(min=1e-12))
    label = f"{fraction:.0%} of the attention to the image"
    panel.text(0.5, -0.03, label, transform=panel.transAxes, ha="center", va="top", fontsize=7)


def _frame(panel: Any, box: Sequence[float], colour: str, width: float, **style: Any) -> None:
    left, top, right, bottom = box
    outline = [left, right, right, left, left], [top, top, bottom, bottom, top]
    panel.plot(*outline, color=colour, linewidth=width, clip_on=False, **style)
