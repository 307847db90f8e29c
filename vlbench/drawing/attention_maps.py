"""Attention maps: an image under the attention of each head of each layer."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL.Image import Image

from vlbench.drawing.layouts import entitle

Floats = NDArray[np.float64]

# The side of a panel in inches, for up to MANY heads and for more.
PANEL, SMALL = 1.5, 0.8
MANY = 24

# The brightness of the image where a head does not look.
DARK = 0.25


def attention_figure(image: Image, maps: Floats, shares: Floats, title: str) -> Figure:
    """Return a figure with a panel per head: rows are layers from 0, columns are heads.

    `maps` [layers, heads, H, W] are attention per pixel, drawn as light on the image, each panel
    scaled by its largest value. `shares` [layers, heads] are printed above the panels.
    """
    layers, heads = shares.shape
    side = PANEL if layers * heads <= MANY else SMALL
    tall = side * image.height / image.width
    figure = Figure((side * heads + 0.4, (tall + 0.18) * layers + 0.3), layout="constrained")
    panels = figure.subplots(layers, heads, squeeze=False)
    pixels = np.asarray(image.convert("RGB"), np.float64) / 255
    for (layer, head), panel in np.ndenumerate(panels):
        light = maps[layer, head] / max(float(maps[layer, head].max()), 1e-12)
        panel.imshow(pixels * (DARK + (1 - DARK) * light[:, :, None]))
        panel.set(xticks=[], yticks=[])
        panel.set_title(f"{shares[layer, head]:.0%}", fontsize=6, pad=2)
        if head == 0:
            panel.set_ylabel(f"layer {layer}", fontsize=6)
        if layer == layers - 1:
            panel.set_xlabel(f"head {head}", fontsize=6)
    entitle(figure, title)
    return figure


def attention_by_pixel(weights: Floats, boxes: Floats, size: tuple[int, int]) -> Floats:
    """Return attention per pixel of a (W, H) image, [..., H, W], from weights [..., R] to R boxes.

    The weight of a box, xyxy pixels, is spread evenly over its pixels; overlapping boxes add up.
    Parts of a box outside the image are cut off.
    """
    width, height = size
    maps = np.zeros((*weights.shape[:-1], height, width))
    for r, (left, top, right, bottom) in enumerate(np.rint(boxes).astype(int).tolist()):
        rows, columns = slice(max(top, 0), max(bottom, 0)), slice(max(left, 0), max(right, 0))
        area = maps[..., rows, columns].shape[-2] * maps[..., rows, columns].shape[-1]
        if area:
            maps[..., rows, columns] += weights[..., r, None, None] / area
    return maps
