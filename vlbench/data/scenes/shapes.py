"""The shape of each noun: polygons in the square -1..1 (y points down), facing right.

shapes.json lists for each noun the calls that draw it: the name of a function in this module, and
its arguments. Parts of tone `body` come first; they have the thing's colour and texture.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Points = np.ndarray[Any, np.dtype[np.float64]]


class Polygon(NamedTuple):
    """One polygon, float64 [K, 2], and its tone: a key of `drawing.FIXED`, body, dark or light."""

    tone: str
    points: Points


def oval(tone: str, x: float, y: float, rx: float, ry: float) -> Polygon:
    """Return an ellipse around (x, y)."""
    turn = np.linspace(0, 2 * np.pi, 18, endpoint=False)
    return Polygon(tone, np.stack([x + rx * np.cos(turn), y + ry * np.sin(turn)], 1))


def box(tone: str, left: float, top: float, right: float, bottom: float) -> Polygon:
    """Return an upright rectangle."""
    return poly(tone, left, top, right, top, right, bottom, left, bottom)


def poly(tone: str, *numbers: float) -> Polygon:
    """Return a polygon of x, y, x, y, ..."""
    return Polygon(tone, np.array(numbers, float).reshape(-1, 2))


def arc(tone: str, x: float, y: float, outer: float, inner: float) -> Polygon:
    """Return half a ring that is open to the left, such as a handle."""
    turn = np.linspace(-np.pi / 2, np.pi / 2, 10)
    half = np.stack([np.cos(turn), np.sin(turn)], 1)
    return Polygon(tone, np.concatenate([half * outer, half[::-1] * inner]) + np.array([x, y]))


def dome(tone: str, x: float, y: float, rx: float, ry: float) -> Polygon:
    """Return the upper half of an ellipse around (x, y)."""
    turn = np.linspace(np.pi, 2 * np.pi, 12)
    return Polygon(tone, np.stack([x + rx * np.cos(turn), y + ry * np.sin(turn)], 1))


def wave() -> Polygon:
    """Return a wavy body along the whole width."""
    x = np.linspace(-1, 1, 14)
    middle, half = 0.3 * np.sin(x * 5.5), 0.2 - 0.13 * (x < -0.7)
    upper, lower = np.stack([x, middle - half], 1), np.stack([x, middle + half], 1)
    return Polygon("body", np.concatenate([upper, lower[::-1]]))


def petals(count: int) -> list[Polygon]:
    """Return round petals in a ring."""
    turns = np.arange(count) * 2 * np.pi / count
    return [oval("body", 0.38 * np.cos(t), -0.4 + 0.38 * np.sin(t), 0.21, 0.21) for t in turns]


def eye(x: float, y: float, radius: float = 0.13) -> list[Polygon]:
    """Return a white eye with a black pupil."""
    return [oval("white", x, y, radius, radius), oval("black", x, y, radius / 2, radius / 2)]


def wheels(*middles: float, radius: float = 0.24) -> list[Polygon]:
    """Return wheels with light hubs."""
    return [
        part
        for x in middles
        for part in (oval("black", x, 0.5, radius, radius), oval("light", x, 0.5, 0.1, 0.1))
    ]


def stem(top: float) -> list[Polygon]:
    """Return a stem from `top` to the ground, with a leaf."""
    leaf = poly("leaf", 0, 0.75, 0.4, 0.35, 0.3, 0.7)
    return [box("leaf", -0.06, top, 0.06, 1), leaf]


DRAWN: dict[str, Callable[..., Polygon | list[Polygon]]] = {
    draw.__name__: draw for draw in (oval, box, poly, arc, dome, wave, petals, eye, wheels, stem)
}


@cache
def shapes() -> dict[str, list[Polygon]]:
    """Return the parts of each noun's shape."""
    calls = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    return {noun: [part for call in own for part in _parts(*call)] for noun, own in calls.items()}


def _parts(name: str, *values: Any) -> list[Polygon]:
    """Return the parts that a function draws; a final mapping contains keyword arguments."""
    options = values[-1] if values and isinstance(values[-1], dict) else {}
    made = DRAWN[name](*values[: len(values) - bool(options)], **options)
    return made if isinstance(made, list) else [made]
