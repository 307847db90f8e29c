"""A sheet as one HTML file that needs no server and saves the filled sheet as CSV."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

import PIL.Image
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from PIL.Image import Image

from vlbench.leaderboard.judgement.sheets import ANSWERS, Line, Sheet, cells_of, columns_of

HERE = Path(__file__).parent

# Pixels of an image's longest side; small images are enlarged to half of it by a whole factor.
SIDE = 400


def picture(image: Image) -> bytes:
    """Return an image as PNG, resized for display."""
    longest = max(image.size)
    scale = SIDE / longest if longest > SIDE else max(1, SIDE // 2 // longest)
    size = [max(1, round(side * scale)) for side in image.size]
    how = PIL.Image.Resampling.NEAREST if scale >= 1 else PIL.Image.Resampling.LANCZOS
    content = BytesIO()
    image.resize((size[0], size[1]), how).save(content, "PNG")
    return content.getvalue()


def sheet_html(sheet: Sheet, lines: Sequence[Line], pictures: Mapping[str, bytes]) -> bytes:
    """Return a sheet as HTML; `pictures` are PNG images by the file names used in the lines.

    Texts are escaped. The page's policy allows its own style and script and no request.
    """
    style, script = ((HERE / name).read_text("utf-8") for name in ("sheet.css", "sheet.js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    shown = {name: base64.b64encode(content).decode() for name, content in pictures.items()}
    return (
        environment.get_template("sheet.html")
        .render(
            sheet=sheet,
            columns=columns_of(sheet),
            lines=[(line, cells_of(sheet, line)) for line in lines],
            answers=ANSWERS,
            pictures=shown if sheet.beside == "image" else {},
            policy=policy,
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
        )
        .encode()
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
