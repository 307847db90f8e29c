"""Sheets of images, each with lines of text below it."""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
from PIL import ImageDraw, ImageFont
from PIL.Image import Image

from vlbench.errors import printed

TILE, LINE, MOST_LINES, COLUMNS = 200, 15, 16, 6

# The most characters of a line below an image.
ACROSS = 30


class CaptionedImage(NamedTuple):
    """An image, and the lines below it."""

    image: Image
    lines: Sequence[str]


def image_sheet(images: Sequence[CaptionedImage]) -> Image:
    """Return images in rows of six, each with up to MOST_LINES lines below it."""
    texts = [
        [part for line in image.lines for part in textwrap.wrap(printed(line), ACROSS)][:MOST_LINES]
        for image in images
    ]
    columns, height = min(COLUMNS, len(images)), TILE + LINE * max(map(len, texts))
    rows = -(-len(images) // columns)
    sheet = PIL.Image.new("RGB", (columns * TILE, rows * height), "white")
    for i, (image, lines) in enumerate(zip(images, texts, strict=True)):
        sheet.paste(_tile(image.image, lines, height), (i % columns * TILE, i // columns * height))
    return sheet


def png(image: Image) -> bytes:
    """Return an image as PNG."""
    content = BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


# A chart has fewer colours, except at the edges of its letters; photographs in it get faint bands.
COLOURS = 256


def figure_png(figure: Any, **options: Any) -> bytes:
    """Return a Matplotlib figure as a PNG with a palette, a third of the size without a palette."""
    content = BytesIO()
    # Matplotlib writes an uncompressed TIFF faster than a PNG.
    figure.savefig(content, format="tiff", **options)
    pixels = np.asarray(PIL.Image.open(content)).view(np.uint32)[..., 0]
    # Most of a chart is white: colour 0. Without the white, the palette takes a third of the time.
    inked = pixels != 0xFFFFFFFF
    ink = PIL.Image.frombytes("RGB", (inked.sum(), 1), pixels[inked].tobytes(), "raw", "RGBX")
    ink = ink.quantize(COLOURS - 1, dither=PIL.Image.Dither.NONE)
    numbers = inked.astype(np.uint8)
    numbers[inked] += np.asarray(ink)[0]
    drawn = PIL.Image.fromarray(numbers)
    drawn.putpalette([255, 255, 255, *(ink.getpalette() or [])][: 3 * COLOURS])
    return png(drawn)


def save_figure(figure: Any) -> Path:
    """Return a new PNG file of a Matplotlib figure."""
    with tempfile.NamedTemporaryFile(suffix=".png", delete=False) as file:
        file.write(figure_png(figure, dpi=110, bbox_inches="tight"))
    return Path(file.name)


def _tile(image: Image, lines: Sequence[str], height: int) -> Image:
    tile = PIL.Image.new("RGB", (TILE, height), "white")
    scale = (TILE - 8) / max(image.size)
    size = [max(1, round(side * scale)) for side in image.size]
    tile.paste(image.resize((size[0], size[1])), (4, 4))
    pen, font = ImageDraw.Draw(tile), ImageFont.load_default(12)
    for i, text in enumerate(lines):
        pen.text((4, TILE - 2 + LINE * i), text, fill="black", font=font)
    return tile
