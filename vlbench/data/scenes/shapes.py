"""The shape of each noun: polygons in the square -1..1 (y points down), facing right.

Parts of tone `body` come first; they have the thing's colour and texture.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Points = np.ndarray[Any, np.dtype[np.float64]]


class Part(NamedTuple):
    """One polygon, float64 [K, 2], and its tone: a key of `drawing.FIXED`, body, dark or light."""

    tone: str
    points: Points


def oval(tone: str, x: float, y: float, rx: float, ry: float) -> Part:
    """Return an ellipse around (x, y)."""
    turn = np.linspace(0, 2 * np.pi, 18, endpoint=False)
    return Part(tone, np.stack([x + rx * np.cos(turn), y + ry * np.sin(turn)], 1))


def box(tone: str, left: float, top: float, right: float, bottom: float) -> Part:
    """Return an upright rectangle."""
    return poly(tone, left, top, right, top, right, bottom, left, bottom)


def poly(tone: str, *numbers: float) -> Part:
    """Return a polygon of x, y, x, y, ..."""
    return Part(tone, np.array(numbers, float).reshape(-1, 2))


def arc(tone: str, x: float, y: float, outer: float, inner: float) -> Part:
    """Return half a ring that is open to the left, as a handle."""
    turn = np.linspace(-np.pi / 2, np.pi / 2, 10)
    half = np.stack([np.cos(turn), np.sin(turn)], 1)
    return Part(tone, np.concatenate([half * outer, half[::-1] * inner]) + np.array([x, y]))


def dome(tone: str, x: float, y: float, rx: float, ry: float) -> Part:
    """Return the upper half of an ellipse around (x, y)."""
    turn = np.linspace(np.pi, 2 * np.pi, 12)
    return Part(tone, np.stack([x + rx * np.cos(turn), y + ry * np.sin(turn)], 1))


def wave() -> Part:
    """Return a wavy body along the whole width."""
    x = np.linspace(-1, 1, 14)
    middle, half = 0.3 * np.sin(x * 5.5), 0.2 - 0.13 * (x < -0.7)
    upper, lower = np.stack([x, middle - half], 1), np.stack([x, middle + half], 1)
    return Part("body", np.concatenate([upper, lower[::-1]]))


def petals(count: int) -> list[Part]:
    """Return round petals in a ring."""
    turns = np.arange(count) * 2 * np.pi / count
    return [oval("body", 0.38 * np.cos(t), -0.4 + 0.38 * np.sin(t), 0.21, 0.21) for t in turns]


def eye(x: float, y: float, radius: float = 0.13) -> list[Part]:
    """Return a white eye with a black pupil."""
    return [oval("white", x, y, radius, radius), oval("black", x, y, radius / 2, radius / 2)]


def wheels(*middles: float, radius: float = 0.24) -> list[Part]:
    """Return wheels with light hubs."""
    return [
        part
        for x in middles
        for part in (oval("black", x, 0.5, radius, radius), oval("light", x, 0.5, 0.1, 0.1))
    ]


def stem(top: float) -> list[Part]:
    """Return a stem from `top` to the ground, with a leaf."""
    leaf = poly("leaf", 0, 0.75, 0.4, 0.35, 0.3, 0.7)
    return [box("leaf", -0.06, top, 0.06, 1), leaf]


_ANIMALS = {
    "puppy": [
        oval("body", -0.15, 0.4, 0.6, 0.4), oval("body", 0.35, -0.35, 0.52, 0.48),
        box("body", -0.55, 0.5, -0.3, 1), box("body", 0.1, 0.5, 0.35, 1),
        poly("body", -0.6, 0.3, -1, -0.1, -0.85, -0.2, -0.5, 0.15),
        oval("dark", 0.0, -0.4, 0.16, 0.4), oval("black", 0.8, -0.2, 0.12, 0.1),
        *eye(0.45, -0.45),
    ],
    "hound": [
        oval("body", -0.1, 0.1, 0.75, 0.3), oval("body", 0.65, -0.25, 0.35, 0.24),
        *[box("body", x, 0.2, x + 0.16, 0.95) for x in (-0.75, -0.5, 0.2, 0.45)],
        poly("body", -0.75, 0.1, -1, -0.6, -0.9, -0.62, -0.6, -0.05),
        oval("dark", 0.48, -0.12, 0.13, 0.32), oval("black", 0.97, -0.25, 0.09, 0.09),
        *eye(0.7, -0.32, 0.1),
    ],
    "poodle": [
        oval("body", -0.05, 0.15, 0.5, 0.3), oval("body", 0.55, -0.4, 0.32, 0.26),
        *[box("body", x, 0.2, x + 0.12, 0.8) for x in (-0.45, 0.25)],
        poly("body", -0.45, 0.1, -0.8, -0.4, -0.7, -0.45, -0.35, 0),
        oval("light", 0.4, -0.72, 0.3, 0.26), oval("light", -0.8, -0.45, 0.2, 0.2),
        oval("light", -0.39, 0.85, 0.2, 0.15), oval("light", 0.31, 0.85, 0.2, 0.15),
        oval("black", 0.86, -0.38, 0.08, 0.08), *eye(0.62, -0.42, 0.09),
    ],
    "duck": [
        oval("body", -0.15, 0.4, 0.75, 0.42), oval("body", 0.45, -0.35, 0.34, 0.34),
        box("body", 0.25, -0.2, 0.6, 0.4), poly("body", -0.7, 0.3, -1, -0.1, -0.5, 0.1),
        oval("dark", -0.2, 0.35, 0.4, 0.2), poly("dark", 0.75, -0.45, 1, -0.3, 0.75, -0.18),
        *eye(0.5, -0.42, 0.1),
    ],
    "owl": [
        oval("body", 0, 0.15, 0.62, 0.8), poly("body", -0.55, -0.3, -0.5, -1, -0.1, -0.6),
        poly("body", 0.55, -0.3, 0.5, -1, 0.1, -0.6), oval("light", 0, 0.45, 0.36, 0.4),
        *eye(-0.26, -0.25, 0.27), *eye(0.26, -0.25, 0.27),
        poly("dark", -0.1, -0.05, 0.1, -0.05, 0, 0.2),
    ],
    "parrot": [
        oval("body", 0, -0.05, 0.36, 0.6), oval("body", 0.15, -0.62, 0.32, 0.32),
        poly("body", -0.2, 0.2, 0.2, 0.35, -0.3, 1, -0.55, 1),
        oval("dark", -0.12, 0.05, 0.2, 0.5), poly("dark", 0.4, -0.8, 0.72, -0.5, 0.45, -0.35),
        *eye(0.22, -0.68, 0.11),
    ],
    "penguin": [
        oval("body", 0, 0.15, 0.5, 0.75), oval("body", 0.05, -0.65, 0.32, 0.32),
        oval("white", 0.14, 0.25, 0.3, 0.55), poly("dark", -0.4, -0.2, -0.8, 0.5, -0.35, 0.3),
        poly("dark", 0.32, -0.75, 0.7, -0.6, 0.32, -0.52), oval("dark", 0.1, 0.92, 0.4, 0.1),
        *eye(0.12, -0.7, 0.1),
    ],
    "goldfish": [
        oval("body", 0.2, 0, 0.65, 0.5), poly("body", -0.2, 0, -1, -0.65, -0.75, 0, -1, 0.65),
        poly("dark", 0, -0.4, 0.1, -0.8, 0.5, -0.4), poly("dark", 0.05, 0.1, -0.15, 0.4, 0.3, 0.3),
        *eye(0.55, -0.1),
    ],
    "shark": [
        poly("body", 1, 0, 0.5, -0.27, -0.55, -0.14, -1, -0.6, -0.85, 0, -1, 0.45, -0.55, 0.12,
              0.4, 0.3),
        poly("body", 0.2, -0.2, -0.2, -0.75, -0.2, -0.15),
        poly("light", 0.95, 0.05, 0.4, 0.28, -0.3, 0.15, 0.3, 0.1),
        poly("dark", 0.2, 0.15, -0.1, 0.6, -0.05, 0.15), oval("black", 0.65, -0.08, 0.07, 0.07),
    ],
    "eel": [wave(), *eye(0.86, -0.3, 0.1)],
}  # fmt: skip

_VEHICLES = {
    "taxi": [
        box("body", -0.97, -0.05, 0.97, 0.5),
        poly("body", -0.65, 0, -0.4, -0.5, 0.35, -0.5, 0.65, 0),
        box("white", -0.18, -0.72, 0.15, -0.5), poly("light", 0.05, -0.05, 0.05, -0.4, 0.3, -0.4,
                                                       0.5, -0.05),
        poly("light", -0.05, -0.05, -0.05, -0.4, -0.35, -0.4, -0.5, -0.05), *wheels(-0.55, 0.55),
    ],
    "van": [
        poly("body", -0.95, -0.65, 0.6, -0.65, 0.95, -0.1, 0.95, 0.5, -0.95, 0.5),
        poly("light", 0.35, -0.5, 0.55, -0.5, 0.8, -0.1, 0.35, -0.1),
        box("dark", -0.8, 0.1, 0.2, 0.2), *wheels(-0.5, 0.55),
    ],
    "truck": [
        box("body", -0.98, -0.75, 0.35, 0.45), poly("body", 0.45, -0.35, 0.8, -0.35, 0.98, 0.05,
                                                      0.98, 0.45, 0.45, 0.45),
        box("dark", -0.98, 0.3, 0.45, 0.45), poly("light", 0.55, -0.25, 0.75, -0.25, 0.88, 0.05,
                                                    0.55, 0.05),
        *wheels(-0.7, -0.2, 0.65),
    ],
    "jeep": [
        box("body", -0.85, -0.1, 0.9, 0.45), poly("body", 0.2, -0.1, 0.1, -0.65, 0.2, -0.65,
                                                    0.35, -0.1),
        box("body", -0.85, -0.6, -0.75, 0), box("body", -0.85, -0.65, 0.2, -0.55),
        oval("black", -0.9, 0.05, 0.12, 0.28), *wheels(-0.5, 0.5, radius=0.33),
    ],
    "sailboat": [
        poly("body", -0.85, 0.45, 0.85, 0.45, 0.5, 0.9, -0.55, 0.9),
        poly("body", 0.05, -1, 0.05, 0.35, 0.8, 0.35), poly("light", -0.08, -0.85, -0.08, 0.35,
                                                              -0.65, 0.35),
        box("wood", -0.05, -1, 0.03, 0.45),
    ],
    "canoe": [
        poly("body", -1, -0.3, -0.7, 0.05, 0.7, 0.05, 1, -0.3, 0.8, 0.4, -0.8, 0.4),
        poly("wood", -0.3, -0.7, -0.2, -0.75, 0.4, 0.6, 0.3, 0.65),
        oval("wood", 0.38, 0.6, 0.12, 0.2),
    ],
    "ferry": [
        poly("body", -1, 0.15, 1, 0.15, 0.75, 0.7, -0.8, 0.7), box("body", -0.7, -0.25, 0.6, 0.2),
        box("dark", -0.45, -0.75, -0.2, -0.25), box("dark", 0.05, -0.75, 0.3, -0.25),
        *[oval("white", x, -0.02, 0.1, 0.1) for x in (-0.5, -0.15, 0.2)],
    ],
    "jet": [
        poly("body", 1, 0, 0.7, -0.17, -0.8, -0.17, -1, -0.65, -0.75, -0.65, -0.5, -0.15, -0.9,
              0.17, 0.7, 0.17),
        poly("dark", 0.25, 0.05, -0.45, 0.75, -0.7, 0.75, -0.25, 0.05),
        *[oval("white", x, -0.05, 0.06, 0.06) for x in (-0.4, -0.1, 0.2, 0.5)],
    ],
    "glider": [
        oval("body", 0.1, 0, 0.9, 0.13), poly("body", 0.3, 0, 0.15, -1, -0.05, -1, -0.05, 1, 0.15,
                                                1),
        box("body", -0.9, -0.4, -0.7, 0.4), oval("light", 0.65, 0, 0.18, 0.08),
    ],
    "biplane": [
        poly("body", 0.8, -0.25, 0.8, 0.25, -0.9, 0.08, -1, -0.45, -0.8, -0.45, -0.6, -0.12),
        box("body", -0.25, -0.65, 0.6, -0.45), box("body", -0.25, 0.35, 0.6, 0.55),
        box("dark", -0.1, -0.45, -0.04, 0.35), box("dark", 0.4, -0.45, 0.46, 0.35),
        box("black", 0.86, -0.6, 0.95, 0.6), oval("black", 0.2, 0.75, 0.15, 0.15),
    ],
}  # fmt: skip

_PLANTS = {
    "pine": [
        poly("body", 0, -1, 0.4, -0.35, -0.4, -0.35), poly("body", 0, -0.65, 0.55, 0.15, -0.55,
                                                             0.15),
        poly("body", 0, -0.2, 0.7, 0.65, -0.7, 0.65), box("wood", -0.12, 0.65, 0.12, 1),
    ],
    "palm": [
        *[
            poly("body", 0, -0.5, x / 2, y - 0.25, x, y, x / 2, y + 0.08)
            for x, y in ((-0.9, -0.75), (-0.95, -0.15), (0.9, -0.75), (0.95, -0.15), (-0.4, -0.95),
                         (0.4, -0.95), (-0.6, 0.2), (0.6, 0.2))
        ],
        poly("wood", -0.08, -0.45, 0.08, -0.45, 0.18, 1, -0.12, 1),
    ],
    "oak": [
        oval("body", 0, -0.5, 0.5, 0.45), oval("body", -0.5, -0.1, 0.45, 0.4),
        oval("body", 0.5, -0.1, 0.45, 0.4), oval("body", 0, 0, 0.5, 0.4),
        poly("wood", -0.15, 0.3, 0.15, 0.3, 0.25, 1, -0.25, 1),
    ],
    "tulip": [
        poly("body", -0.5, -0.95, -0.22, -0.6, 0, -1, 0.22, -0.6, 0.5, -0.95, 0.48, -0.3, 0.2, 0,
              -0.2, 0, -0.48, -0.3),
        *stem(0),
    ],
    "daisy": [*petals(7), oval("white", 0, -0.4, 0.2, 0.2), *stem(0.15)],
    "rose": [
        oval("body", 0, -0.45, 0.52, 0.5), oval("dark", 0.05, -0.48, 0.33, 0.32),
        oval("body", 0.0, -0.45, 0.24, 0.22), oval("dark", 0.03, -0.45, 0.1, 0.1), *stem(0.05),
    ],
    "apple": [
        oval("body", -0.28, 0.15, 0.55, 0.65), oval("body", 0.28, 0.15, 0.55, 0.65),
        box("wood", -0.05, -0.85, 0.07, -0.35), poly("leaf", 0.07, -0.6, 0.35, -0.95, 0.55, -0.7),
        oval("light", -0.4, -0.05, 0.12, 0.18),
    ],
    "pear": [
        oval("body", 0, 0.4, 0.62, 0.55), oval("body", 0, -0.3, 0.35, 0.5),
        box("wood", -0.05, -1, 0.06, -0.7), oval("light", -0.25, 0.3, 0.1, 0.2),
    ],
    "banana": [
        poly("body", -1, -0.45, -0.8, -0.5, -0.5, 0.05, 0, 0.25, 0.5, 0.05, 0.85, -0.5, 1, -0.45,
              0.85, 0.25, 0.4, 0.65, -0.2, 0.7, -0.7, 0.35),
        box("black", 0.83, -0.6, 1, -0.42), poly("dark", -0.7, 0.15, -0.1, 0.5, 0.6, 0.3, 0, 0.4),
    ],
    "cherry": [
        oval("body", -0.5, 0.5, 0.42, 0.42), oval("body", 0.45, 0.6, 0.4, 0.4),
        poly("leaf", -0.5, 0.1, 0.1, -0.9, 0.18, -0.85, -0.42, 0.12),
        poly("leaf", 0.4, 0.25, 0.08, -0.85, 0.17, -0.9, 0.5, 0.22),
        poly("leaf", 0.12, -0.9, 0.7, -0.9, 0.5, -0.6), oval("light", -0.6, 0.4, 0.1, 0.1),
    ],
}  # fmt: skip

_FURNISHINGS = {
    "mug": [
        box("body", -0.7, -0.7, 0.4, 0.75), arc("body", 0.4, 0, 0.5, 0.28),
        oval("dark", -0.15, -0.7, 0.55, 0.14),
    ],
    "goblet": [
        poly("body", -0.6, -0.95, 0.6, -0.95, 0.5, -0.3, 0.1, 0.05, -0.1, 0.05, -0.5, -0.3),
        box("body", -0.1, 0, 0.1, 0.75), poly("body", -0.5, 0.95, 0.5, 0.95, 0.1, 0.7, -0.1, 0.7),
        oval("dark", 0, -0.93, 0.6, 0.1),
    ],
    "teacup": [
        poly("body", -0.75, -0.45, 0.55, -0.45, 0.4, 0.15, 0.15, 0.4, -0.35, 0.4, -0.6, 0.15),
        arc("body", 0.45, -0.12, 0.36, 0.2), oval("dark", -0.1, -0.45, 0.65, 0.12),
        oval("light", -0.05, 0.48, 0.95, 0.14),
    ],
    "stool": [
        oval("body", 0, -0.5, 0.7, 0.28), poly("body", -0.5, -0.4, -0.3, -0.4, -0.55, 0.95, -0.7,
                                                 0.95),
        poly("body", 0.5, -0.4, 0.3, -0.4, 0.55, 0.95, 0.7, 0.95),
        box("body", -0.1, -0.4, 0.1, 0.8),
        oval("light", 0, -0.55, 0.5, 0.15),
    ],
    "armchair": [
        box("body", -0.65, -0.9, 0.65, 0.6), box("dark", -0.95, -0.15, -0.6, 0.7),
        box("dark", 0.6, -0.15, 0.95, 0.7), box("light", -0.6, 0.05, 0.6, 0.35),
        box("wood", -0.85, 0.7, -0.65, 1), box("wood", 0.65, 0.7, 0.85, 1),
    ],
    "bench": [
        box("body", -1, 0.05, 1, 0.28), box("body", -0.95, -0.65, 0.95, -0.42),
        box("body", -0.95, -0.3, 0.95, -0.1), box("dark", -0.85, 0.28, -0.7, 0.8),
        box("dark", 0.7, 0.28, 0.85, 0.8), box("dark", -0.8, -0.7, -0.7, 0.05),
        box("dark", 0.7, -0.7, 0.8, 0.05),
    ],
    "cap": [
        dome("body", -0.2, 0.3, 0.7, 0.85), poly("body", 0.3, 0.05, 1, 0.3, 0.95, 0.45, 0.2, 0.35),
        box("dark", -0.9, 0.2, 0.5, 0.33), oval("dark", -0.2, -0.56, 0.1, 0.08),
    ],
    "sombrero": [
        oval("body", 0, 0.4, 1, 0.26), poly("body", -0.4, 0.35, -0.22, -0.8, 0.22, -0.8, 0.4, 0.35),
        poly("dark", -0.42, 0.35, -0.36, 0.05, 0.36, 0.05, 0.42, 0.35),
    ],
    "beanie": [
        dome("body", 0, 0.45, 0.75, 1.05), box("dark", -0.82, 0.35, 0.82, 0.75),
        oval("light", 0, -0.7, 0.28, 0.28),
    ],
    "bowler": [
        dome("body", 0, 0.3, 0.58, 0.95), poly("body", -0.95, 0.1, -0.7, 0.3, 0.7, 0.3, 0.95, 0.1,
                                                 0.75, 0.52, -0.75, 0.52),
        box("black", -0.58, 0.08, 0.58, 0.28),
    ],
}  # fmt: skip

SHAPES: dict[str, list[Part]] = {**_ANIMALS, **_VEHICLES, **_PLANTS, **_FURNISHINGS}
