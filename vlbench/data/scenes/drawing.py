"""Draws a scene with Pillow at twice its size and finds the visible part of each thing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import PIL.Image
from PIL import ImageChops, ImageDraw
from PIL.Image import Image, Resampling

from vlbench.data.scenes.layout import Backdrop, Colour, Scene, Thing
from vlbench.data.scenes.shapes import shapes
from vlbench.data.scenes.world import SIDE

# The factor by which a drawing is larger than its image: smooth edges, boxes to half a pixel.
SCALE = 2
LARGE = (SIDE * SCALE, SIDE * SCALE)

Masks = np.ndarray[Any, np.dtype[np.bool_]]
Floats = np.ndarray[Any, np.dtype[np.float64]]

FIXED: dict[str, Colour] = {
    "black": (25, 25, 28),
    "white": (248, 248, 248),
    "leaf": (70, 115, 70),
    "wood": (105, 80, 60),
}


class Drawn(NamedTuple):
    """An image, the box of the visible part of each thing (xyxy pixels), and the hidden parts.

    `hidden[i][j]` is the fraction, 0..1, of thing j that thing i hides. `visible[j]` is the
    fraction of thing j (its part inside the image) that nothing hides.
    """

    image: Image
    boxes: list[tuple[float, float, float, float]]
    hidden: Floats
    visible: list[float]


def draw(scene: Scene) -> Drawn:
    """Return the drawing of a scene, 64 x 64 pixels, RGB.

    A box is tight around the visible pixels of its thing: parts hidden by another thing or outside
    the image do not count. A thing that is hidden completely has the box (0, 0, 0, 0).
    """
    canvas = backdrop(scene.backdrop)
    behind = canvas.copy() if scene.screen else canvas
    masks = np.stack([_paint(canvas, thing) for thing in scene.things])
    if scene.screen:
        screen = _screen(scene.screen)
        canvas.paste(behind, mask=screen)
        covered = np.asarray(screen, bool)
    else:
        covered = np.zeros(masks.shape[1:], bool)
    seen, hidden = _visibility(masks, covered)
    visible = [float(s.sum() / max(1, m.sum())) for s, m in zip(seen, masks, strict=True)]
    return Drawn(canvas.reduce(SCALE), [_bounds(mask) for mask in seen], hidden, visible)


def backdrop(background: Backdrop) -> Image:
    """Return a background at twice the size of an image."""
    first, second = background.colours
    canvas = PIL.Image.new("RGB", LARGE, first)
    clouds = PIL.Image.fromarray(background.clouds).resize(LARGE, Resampling.BICUBIC)
    if background.kind == "cloudy":
        contrast = tuple(min(255, c + 45) for c in second)
        canvas.paste(contrast, mask=clouds)
        return canvas
    # Even a plain background varies in colour.
    canvas.paste(second, mask=clouds.point(lambda level: level // 3))
    width, side = background.width * SCALE, SIDE * SCALE
    dark = tuple(int(c * 0.82) for c in first)
    pen = ImageDraw.Draw(canvas)
    for i, left in enumerate(range(0, side, width)):
        if background.kind == "striped" and i % 2:
            pen.rectangle((left, 0, left + width - 1, side), fill=dark)
        for j, top in enumerate(range(0, side, width)):
            if background.kind == "checked" and (i + j) % 2:
                pen.rectangle((left, top, left + width - 1, top + width - 1), fill=dark)
    return canvas


def _paint(canvas: Image, thing: Thing) -> Masks:
    """Paint a thing on the canvas and return the mask of the pixels that it covers."""
    pen, whole = ImageDraw.Draw(canvas), PIL.Image.new("L", LARGE)
    mask, placement = ImageDraw.Draw(whole), _placement(thing)
    outline, textured = _shade(thing.paint, 0.55), thing.texture == "plain"
    for tone, points in shapes()[thing.noun]:
        if tone != "body" and not textured:
            _texture(canvas, whole, thing)
            textured = True
        corners = _corners(points, placement)
        pen.polygon(corners, fill=_tone(tone, thing), outline=outline if tone == "body" else None)
        mask.polygon(corners, fill=255)
    if not textured:
        _texture(canvas, whole, thing)
    return np.asarray(whole, bool)


def _placement(thing: Thing) -> Floats:
    """Return the affine map, float64 [3, 2], of (x, y, 1) in a shape to pixels of the canvas."""
    turn, mirror = np.deg2rad(thing.angle), -1.0 if thing.facing == "left" else 1.0
    across, down = np.array([np.cos(turn), np.sin(turn)]), np.array([-np.sin(turn), np.cos(turn)])
    radius = thing.radius * SCALE
    return np.stack([mirror * across * radius, down * radius, np.array(thing.centre) * SCALE])


def _corners(points: Floats, placement: Floats) -> list[float]:
    """Return points of a shape as pixels of the canvas: x, y, x, y, ..."""
    corners: list[float] = np.rint(points @ placement[:2] + placement[2]).ravel().tolist()
    return corners


def _texture(canvas: Image, body: Image, thing: Thing) -> None:
    """Paint stripes or spots, aligned with the thing, over its body."""
    bright = sum(thing.paint) > 330
    colour = _shade(thing.paint, 0.5) if bright else _lighter(thing.paint, 0.6)
    pattern = PIL.Image.new("L", LARGE)
    pen, placement = ImageDraw.Draw(pattern), _placement(thing)
    for points in STRIPES if thing.texture == "striped" else SPOTS:
        pen.polygon(_corners(points, placement), fill=255)
    canvas.paste(colour, mask=ImageChops.darker(pattern, body))


def _tone(tone: str, thing: Thing) -> Colour:
    if tone in FIXED:
        return FIXED[tone]
    dark = _shade(thing.paint, 0.7) if sum(thing.paint) > 150 else _lighter(thing.paint, 0.2)
    return {"body": thing.paint, "dark": dark, "light": _lighter(thing.paint, 0.45)}[tone]


def _shade(colour: Colour, factor: float) -> Colour:
    red, green, blue = (int(c * factor) for c in colour)
    return red, green, blue


def _lighter(colour: Colour, fraction: float) -> Colour:
    red, green, blue = (int(c + (255 - c) * fraction) for c in colour)
    return red, green, blue


def _spot(x: float, y: float) -> Floats:
    turn = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    return np.array([x, y]) + 0.13 * np.stack([np.cos(turn), np.sin(turn)], 1)


STRIPES = [
    np.array([[left, -1.2], [left + 0.18, -1.2], [left + 0.18, 1.2], [left, 1.2]])
    for left in np.arange(-1.2, 1.2, 0.42)
]
SPOTS = [
    _spot(x + shift, y)
    for shift, y in zip((0, 0.22) * 3, np.arange(-1, 1.1, 0.4), strict=True)
    for x in np.arange(-1, 1, 0.44)
]


def _screen(patch: tuple[float, float, float]) -> Image:
    mask = PIL.Image.new("L", LARGE)
    x, y, half = (value * SCALE for value in patch)
    ImageDraw.Draw(mask).rectangle((x - half, y - half, x + half, y + half), fill=255)
    return mask


def _visibility(masks: Masks, covered: Masks) -> tuple[Masks, Floats]:
    """Return the visible pixels of each thing, and the fraction that each other thing hides."""
    count = len(masks)
    seen, hidden = masks & ~covered, np.zeros((count, count))
    for back in range(count):
        for front in range(back + 1, count):
            shared = (masks[back] & masks[front]).sum()
            hidden[front, back] = shared / max(1, masks[back].sum())
            seen[back] &= ~masks[front]
    return seen, hidden


def _bounds(mask: Masks) -> tuple[float, float, float, float]:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not len(rows):
        return (0.0, 0.0, 0.0, 0.0)
    left, top = float(columns[0] / SCALE), float(rows[0] / SCALE)
    return left, top, float((columns[-1] + 1) / SCALE), float((rows[-1] + 1) / SCALE)
