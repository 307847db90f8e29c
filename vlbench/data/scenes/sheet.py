"""A contact sheet of images with their boxes and first captions."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import PIL.Image
from PIL import ImageDraw
from PIL.Image import Image, Resampling

from vlbench.data.records import Split
from vlbench.data.scenes.loaders import drawn_rows
from vlbench.data.scenes.rows import sizes
from vlbench.data.scenes.world import CATEGORIES
from vlbench.system.files import temporary_folder, write_whole

TILE = 192
TEXT = 54
COLUMNS = 6
COUNT = 24
PENS = ("#ff2020", "#20c020", "#3060ff", "#ff9000")


def write_sheet(name: str, file: Path) -> dict[str, Any]:
    """Write the first test images of `objects` or `scenes` as PNG and return a summary.

    Only these images are drawn, not the whole world.
    """
    content = BytesIO()
    with temporary_folder() as folder:
        contact_sheet(drawn_rows(name, "test", COUNT, folder), COUNT).save(content, "PNG")
    write_whole(file, content.getvalue())
    return {"name": name, "file": str(file), "splits": sizes(name), "classes": list(CATEGORIES)}


def describe(summary: Mapping[str, Any]) -> str:
    """Return the summary of `write_sheet` as text."""
    sizes = ", ".join(f"{n} {split}" for split, n in summary["splits"].items())
    return (
        f"{summary['name']}: {sizes} images of {', '.join(summary['classes'])}\n"
        f"wrote {summary['file']}: the first {COUNT} test images, "
        "ground truth boxes in colour, proposals in grey"
    )


def contact_sheet(rows: Split, count: int) -> Image:
    """Return the first `count` images of a split, enlarged, with boxes and first captions.

    Ground truth boxes are coloured, proposals thin and grey. Raises ValueError for a count below 1.
    """
    if count < 1:
        raise ValueError(f"a contact sheet of {count} images; it needs 1 or more")
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
