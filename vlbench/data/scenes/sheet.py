"""A contact sheet: images with their boxes and first captions, for a person to look at."""

from __future__ import annotations

import textwrap

import PIL.Image
from PIL import ImageDraw
from PIL.Image import Image, Resampling

from vlbench.data.records import Data, Split

TILE = 192
TEXT = 54
COLUMNS = 6
PENS = ("#ff2020", "#20c020", "#3060ff", "#ff9000")


def contact_sheet(data: Data, split: str, count: int) -> Image:
    """Return the first `count` images of a split, enlarged, with gold boxes and first captions.

    Proposals are thin and grey. Raises ValueError where fewer than one is asked for.
    """
    if count < 1:
        raise ValueError(f"{count} images asked of a contact sheet; ask for 1 or more")
    rows = data.splits[split]
    tiles = [_tile(rows, i) for i in range(min(count, len(rows)))]
    columns = min(COLUMNS, len(tiles))
    height = (len(tiles) + columns - 1) // columns * (TILE + TEXT)
    sheet = PIL.Image.new("RGB", (columns * TILE, height), "white")
    for i, tile in enumerate(tiles):
        sheet.paste(tile, (i % columns * TILE, i // columns * (TILE + TEXT)))
    return sheet


def _tile(rows: Split, i: int) -> Image:
    image = rows["image"][i]
    scale = (TILE - 4) / image.width
    tile = PIL.Image.new("RGB", (TILE, TILE + TEXT), "white")
    tile.paste(image.resize((TILE - 4, TILE - 4), Resampling.NEAREST))
    pen = ImageDraw.Draw(tile)
    for box in (rows["regions"][i].boxes * scale).tolist():
        pen.rectangle(box, outline="#d0d0d0")
    for j, box in enumerate((rows["boxes"][i] * scale).tolist()):
        pen.rectangle(box, outline=PENS[j % len(PENS)], width=2)
    caption = rows["caption"][i].replace(" .", ".").replace(" ,", ",")
    for line, text in enumerate(textwrap.wrap(caption, 34)[:4]):
        pen.text((2, TILE - 3 + 13 * line), text, fill="black")
    return tile
