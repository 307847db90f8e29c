"""The card of a small model: what it was trained on and how, what it reaches, what it cannot do."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tiny.measures import Measure
from tiny.training import Plan, Training
from tiny.world import OTHER_SEED, WORLD_SEED
from vlbench.data.scenes import VERSION

LIBRARIES = ("torch", "numpy", "pillow", "datasets", "tokenizers")


def write(folder: Path, card: Mapping[str, Any]) -> None:
    """Write a card beside the weights."""
    (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", "utf-8")


def data(
    configurations: Sequence[str], categories: Sequence[str], images: int, texts: int
) -> dict[str, Any]:
    """Return what a card says of the examples."""
    return {
        "name": "scenes",
        "configurations": list(configurations),
        "categories": list(categories),
        "version": VERSION,
        "seed": WORLD_SEED,
        "split": "train",
        "images": images,
        "texts": texts,
    }


def questions(images: int) -> dict[str, Any]:
    """Return what a card says of the questions about images of another world, if there are any."""
    asked = {"seed": OTHER_SEED, "images": images, "texts": 5 * images}
    return {"questions": asked} if images else {}


def others(worlds: int) -> dict[str, Any]:
    """Return what a card says of other worlds whose scenes count among the examples, if any do."""
    return {"others": {"seeds": list(range(OTHER_SEED, OTHER_SEED + worlds))}} if worlds else {}


def training(told: Training, plan: Plan) -> dict[str, Any]:
    """Return what a card says of the training."""
    shown = {k: round(v, 4) if k.endswith("loss") else v for k, v in told._asdict().items()}
    schedule = {"optimizer": plan.optimizer, "rate": plan.rate, "decay": plan.decay}
    return {"seed": plan.seed, **schedule, **shown}


def held_out(measured: Mapping[str, Mapping[str, Measure]]) -> dict[str, Any]:
    """Return what a card says of the splits, by measure and then by split."""
    names = next(iter(measured.values()))
    return {name: {split: _shown(m[name]) for split, m in measured.items()} for name in names}


def versions(more: Sequence[str]) -> dict[str, str]:
    """Return the versions of the libraries that took part."""
    return {name: importlib.metadata.version(name) for name in (*LIBRARIES, *more)}


def _shown(measure: Measure) -> dict[str, Any]:
    share, n = measure.value, measure.n
    error = measure.stderr
    if error is None:
        error = (share * (1 - share) / n) ** 0.5
    rounded = {"value": share, "stderr": error, "chance": measure.chance}
    return {"n": n} | {key: round(value, 4) for key, value in rounded.items()}
