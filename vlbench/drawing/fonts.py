"""Fonts of figures: installed fonts draw the characters that Matplotlib's font does not have."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

from vlbench.errors import printed

LOGGER = logging.getLogger(__name__)


def add_fonts(figure: Figure) -> None:
    """Add fonts to a figure's texts that have their missing characters; draw no ligatures.

    Characters that no installed font has are logged once.
    """
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    signs = {ord(sign) for text in texts for sign in text.get_text() if sign.isprintable()}
    lacking = signs - _characters(findfont(FontProperties()))
    families = []
    fonts = sorted(fontManager.ttflist, key=lambda font: (font.weight != 400, font.name))
    for font in fonts if lacking else ():
        # A font of last resort has only a box for each character.
        is_drawn = font.style == "normal" and "LastResort" not in font.name.replace(" ", "")
        if is_drawn and lacking & _characters(font.fname):
            families.append(font.name)
            lacking -= _characters(font.fname)
    for text in texts if families else ():
        text.set_fontfamily([*text.get_fontfamily(), *families])
    # Matplotlib draws ligatures from 3.11 on. With one, a PDF contains a second font, which takes
    # 0.1 s to write.
    for text in texts if hasattr(Text, "set_fontfeatures") else ():
        text.set_fontfeatures(["-liga"])
    if lacking:
        _name("".join(map(chr, sorted(lacking))))


@contextmanager
def without_glyph_warnings() -> Iterator[None]:
    """Suppress Matplotlib's warning for each character that a font does not have."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        yield


@cache
def _characters(file: str) -> frozenset[int]:
    return frozenset(get_font(file).get_charmap())


@cache
def _name(signs: str) -> None:
    LOGGER.warning(
        (
            "figures show boxes for %s: no installed font has these characters; install a font "
            "that does, such as Noto Sans CJK"
        ),
        printed(signs[:20]),
    )
