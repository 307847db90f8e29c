"""Pictures of chosen examples: an image, its boxes, and where the best head looks from a word."""

from __future__ import annotations

import tempfile
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
from vlbench.engine import Engine
from vlbench.metrics.boxes import iou
from vlbench.probes.grounding.attention import Query, Reader, proposed
from vlbench.probes.grounding.scores import Group
from vlbench.probes.grounding.targets import OVERLAP, column_shares

GOLD, RIGHT, WRONG, LOOK = "#ffffff", "#1a9850", "#d73027", "#fdae61"
LEGEND = "dashed: gold; orange: regions, the stronger the more attention; green or red: the choice"


@dataclass(frozen=True)
class Pointer:
    """Reads where one head looks from one word."""

    reader: Reader

    def point(
        self, pictures: Sequence[Picture], examples: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Tensor] | None]:
        """Return what each example's word sees; None where it has no token, or nothing to see.

        That is the `weights` [P] of the `boxes` [P, 4] that the head chooses from, and the `total`
        of its attention to the image: regions have of a model's own patches what they cover.
        """
        given = proposed(pictures, self.reader.detector)
        return [self._seen(*pair) for pair in zip(given, examples, strict=True)]

    def _seen(self, picture: Picture, example: Mapping[str, Any]) -> dict[str, Tensor] | None:
        if picture.regions is None or not len(picture.regions.boxes):
            return None
        (attention,) = self.reader.model.attend([picture], [example["text"]])
        token = last_token(attention.spans, *example["span"])
        if token is None:
            return None
        weights = attention.weights.flatten(0, 1)[example["head"], token].cpu().double()
        seen = {"weights": weights, "boxes": attention.boxes.cpu(), "total": weights.sum()}
        regions = picture.regions.boxes.cpu()
        shares = column_shares(seen["boxes"], regions)
        return seen if shares is None else seen | {"weights": weights @ shares, "boxes": regions}


def drawn(
    reader: Reader,
    pictures: Column,
    asked: Column,
    engine: Engine,
    *,
    groups: Sequence[Group],
    examples: int,
) -> dict[str, Path]:
    """Return a picture of so many examples, drawn by the main process; nothing for none.

    They are chosen before anything is known of them: evenly among the images, one of each group in
    turn, the first word that is asked.
    """
    chosen = choose_examples(asked, groups, examples)
    if not chosen:
        return {}
    shown = pictures.select([example["image"] for example in chosen])
    looks = engine.map(Pointer(reader).point, shown, value_column(chosen))
    if not engine.is_main:
        return {}
    return {"examples": draw(list(shown), chosen, looks)}


def choose_examples(
    asked: Sequence[Mapping[str, Any]] | Column, groups: Sequence[Group], examples: int
) -> list[dict[str, Any]]:
    """Return so many words that are asked for, as plain values, each with its group's best head."""
    chosen = []
    for k in range(examples):
        group = groups[k % len(groups)]
        images = np.flatnonzero(group.sizes)
        image = int(images[k * len(images) // examples])
        one = asked[image]
        j, query = next(
            (j, Query(*query))
            for j, queries in enumerate(one["queries"])
            for query in queries
            if query[0] == group.number
        )
        chosen.append(
            {
                "image": image,
                "text": one["texts"][j],
                "span": [query.start, query.stop],
                "gold": one["targets"][query.target],
                "head": group.best,
                "title": " ".join([*group.at.values(), f"head {group.named(group.best)}"]),
            }
        )
    return chosen


def draw(
    pictures: Sequence[Picture],
    examples: Sequence[Mapping[str, Any]],
    looks: Sequence[Mapping[str, Tensor] | None],
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
    for panel, picture, example, look in zip(figure.axes, pictures, examples, looks, strict=False):
        _panel(panel, picture, example, look)
    with tempfile.NamedTemporaryFile(suffix=".png", delete=False) as file:
        figure.savefig(file, format="png", dpi=110, bbox_inches="tight")
    return Path(file.name)


def _panel(
    panel: Any,
    picture: Picture,
    example: Mapping[str, Any],
    look: Mapping[str, Tensor] | None,
) -> None:
    known = picture.regions or picture.image
    assert known
    width, height = known.size
    if picture.image is not None:
        panel.imshow(picture.image, extent=(0, width, height, 0))
    panel.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
    start, stop = example["span"]
    marked = f"{example['text'][:start]}[{example['text'][start:stop]}]{example['text'][stop:]}"
    lines = [*wrap(marked, 46), example["title"]]
    # A caption's dollars are no formula.
    panel.set_title("\n".join(lines), fontsize=7, parse_math=False)
    if look is not None:
        _attention(panel, look, example["gold"])
    for box in example["gold"]:
        _frame(panel, box, "black", 2.8)
        _frame(panel, box, GOLD, 1.4, linestyle="--")


def _attention(panel: Any, look: Mapping[str, Tensor], gold: Sequence[Sequence[float]]) -> None:
    """Frame every box, the stronger the more it is attended to, and the first of the most."""
    weights, boxes = look["weights"], look["boxes"]
    shares = (weights / weights.max().clamp(min=1e-12)).tolist()
    for box, share in sorted(zip(boxes.tolist(), shares, strict=True), key=lambda pair: pair[1]):
        _frame(panel, box, LOOK, 1.2, alpha=0.15 + 0.85 * share)
        _fill(panel, box, share)
    best = boxes[int(weights.argmax())]
    right = bool((iou(best[None], torch.tensor(gold)) >= OVERLAP).any())
    _frame(panel, best.tolist(), RIGHT if right else WRONG, 2.6)
    share = float(weights.max() / look["total"].clamp(min=1e-12))
    label = f"{share:.0%} of the attention to the image"
    panel.text(0.5, -0.03, label, transform=panel.transAxes, ha="center", va="top", fontsize=7)


def _frame(panel: Any, box: Sequence[float], colour: str, width: float, **style: Any) -> None:
    left, top, right, bottom = box
    outline = [left, right, right, left, left], [top, top, bottom, bottom, top]
    panel.plot(*outline, color=colour, linewidth=width, clip_on=False, **style)


def _fill(panel: Any, box: Sequence[float], share: float) -> None:
    left, top, right, bottom = box
    panel.fill_between([left, right], top, bottom, color=LOOK, alpha=0.45 * share, lw=0)
