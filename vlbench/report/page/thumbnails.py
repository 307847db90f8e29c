"""Small pictures of the items that models get wrong most often, for the page."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path

from PIL.Image import Image, Resampling

from vlbench.boards.artifacts import read_items
from vlbench.report.page.sections import Section

# The longer side in pixels, and the quality of JPEG: a picture has about 3 kB.
SIDE, QUALITY = 96, 80


def digests_of(section: Section, output: Path) -> dict[str, str]:
    """Return the digest of each of a section's worst items; none for items without content.

    Raises DataError for items that cannot be read.
    """
    names, of = {item.id for item in section.worst}, section.worst_of
    if of is None or of.leaders is None:
        return {}
    row = next(one.row for one in of.entries if one.row.model == of.leaders.leader)
    table = read_items(output, row).select(["id", "digest"]).to_pydict()
    pairs = zip(table["id"], table["digest"], strict=True)
    return {name: digest for name, digest in pairs if name in names and digest}


def thumbnail(image: Image) -> str:
    """Return an image as an address that holds its content."""
    small, content = image.convert("RGB"), BytesIO()
    small.thumbnail((SIDE, SIDE), Resampling.LANCZOS)
    small.save(content, "JPEG", quality=QUALITY)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}"
