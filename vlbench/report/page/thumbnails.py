"""Thumbnails of the items that models get wrong most often, for the page."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

from PIL.Image import Image, Resampling

from vlbench.boards.artifacts import read_items
from vlbench.report.page.sections import Section

# The longer side in pixels, and the JPEG quality: a picture has about 3 kB.
SIDE, QUALITY = 96, 80

# Images up to this many pixels a side are kept as PNG: enlarged, they would show JPEG artefacts.
EXACT = 32


def digests_of(section: Section, output: Path) -> dict[str, str]:
    """Return the image digest of each of a section's worst items that has one.

    Raises DataError for items that cannot be read.
    """
    names, row = {item.id for item in section.worst}, section.leading_row
    if row is None:
        return {}
    table = read_items(output, row)
    columns = [c for c in ("id", "digest", "image") if c in table.column_names]
    items = [item for item in table.select(columns).to_pylist() if item["id"] in names]
    digests = {item["id"]: item.get("image") or item["digest"] for item in items}
    return {name: digest for name, digest in digests.items() if digest}


def thumbnail(image: Image, side: int = SIDE) -> str:
    """Return an image's pixels, the longer side at most `side`, as a data address."""
    small, content = image.convert("RGB"), BytesIO()
    # A JPEG's comment would be saved, too.
    small.info.clear()
    small.thumbnail((side, side), Resampling.LANCZOS)
    kind = "png" if max(small.size) <= EXACT else "jpeg"
    small.save(content, kind, quality=QUALITY)
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"
