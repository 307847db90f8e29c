"""Figures of favourite captions: most frequent words (figure 4 of arXiv:2210.09550), and a sheet.

A row that keeps a table of words has the first, one that keeps examples with their images the
second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from vlbench.boards import Board
from vlbench.data.images import decode_image
from vlbench.errors import DataError
from vlbench.files import safe_name
from vlbench.leaderboard.artifacts import read_table
from vlbench.leaderboard.figures.charts import percent, save, styled
from vlbench.leaderboard.figures.layouts import entitle, grid, seat_legend, text_width
from vlbench.leaderboard.item_lists import Shown, write_item_sheet
from vlbench.leaderboard.tables import drawn, spaced
from vlbench.results import Result

# A row of a table.
Row = Mapping[str, Any]

WORDS = ("captions", "rank", "word", "part_of_speech", "share")

# What captions are called under an image, the names of their columns, and those of their scores.
TOLD = {"reference": "reference", "before": "ce", "favourite": "favourites"}
EXAMPLES = ("image", *TOLD.values(), *(f"{name}_score" for name in TOLD.values()))

# Words of a panel and images of a sheet; a row that was written by others may have more.
MOST_WORDS, MOST_IMAGES = 10, 12

# Letters of a word.
LONGEST = 24

# Lines under an image.
LINES = 11

# The colours of parts of speech; all others share the last.
COLOURS = {
    "NOUN": "#0072b2",
    "VERB": "#d55e00",
    "ADJ": "#009e73",
    "ADP": "#cc79a7",
    "DET": "#e69f00",
    "CCONJ": "#56b4e9",
}
OTHER = "#999999"


def draw_favourites(output: Path, boards: Mapping[str, Board]) -> list[Path]:
    """Write `figures/<task>/<model>_words` and `<model>_captions` for each ok row with tables.

    A row whose table is not in the folder, or is not the one that the row was written with, has no
    figure; why is logged. Returns the files.
    """
    written = []
    for task, board in boards.items():
        for row in board.results:
            for name, draw in (("unigrams", _draw_words), ("examples", _draw_sheet)):
                # Other probes keep a picture of examples.
                kept = row.artifacts[name]["file"] if name in row.artifacts else ""
                if row.status == "ok" and kept and not kept.endswith(".png"):
                    written += _tried(output, task, row, draw)
    return written


def word_figure(title: str, words: Sequence[Row]) -> Figure:
    """Return a panel for each kind of captions: its most frequent words, the first on top."""
    kinds = list(dict.fromkeys(str(word["captions"]) for word in words))
    longest = max(text_width(_shown(word), 8) for word in words)
    figure, panels = grid(len(kinds), (2.4 + longest, 2.6))
    for panel, kind in zip(panels, kinds, strict=True):
        own = sorted((one for one in words if one["captions"] == kind), key=lambda o: o["rank"])
        _draw_bars(panel, own[:MOST_WORDS])
        panel.set_title(drawn(spaced(kind)), fontsize=9)
    entitle(figure, title)
    seen = {_named(word["part_of_speech"]) for word in words}
    names = [name for name in (*COLOURS, "other") if name in seen]
    seat_legend(figure, [Patch(color=COLOURS.get(name, OTHER)) for name in names], names)
    return figure


def _draw_bars(panel: Axes, words: Sequence[Row]) -> None:
    places = range(len(words))
    colours = [COLOURS.get(word["part_of_speech"], OTHER) for word in words]
    panel.barh(places, [word["share"] for word in words], color=colours)
    panel.set_yticks(places, [drawn(_shown(word)) for word in words])
    panel.set_ylim(MOST_WORDS - 0.4, -0.6)
    panel.tick_params(labelsize=8, axis="y", length=0)
    panel.xaxis.set_major_formatter(percent)
    panel.set_xlabel("share of all words (%)", fontsize=8)


def _shown(word: Row) -> str:
    """Return a word, cut where it is longer than words are."""
    return str(word["word"])[:LONGEST]


def _named(part: str) -> str:
    return part if part in COLOURS else "other"


def _tried(
    output: Path, task: str, row: Result, draw: Callable[[Path, str, Result], list[Path]]
) -> list[Path]:
    """Draw what a row keeps, if it can be read."""
    try:
        return draw(output, task, row)
    except DataError as error:
        logging.getLogger(__name__).warning("%s: no figure of %s: %s", task, row.model, error)
        return []


def _draw_words(output: Path, task: str, row: Result) -> list[Path]:
    words = read_table(output, row, "unigrams", WORDS)
    if not words:
        return []
    with styled():
        figure = word_figure(f"{spaced(task)}: {row.model}", words)
        return save(figure, output / "figures" / task / f"{safe_name(row.model)}_words")


def _draw_sheet(output: Path, task: str, row: Result) -> list[Path]:
    rows = read_table(output, row, "examples", EXAMPLES)[:MOST_IMAGES]
    if not rows:
        return []
    shown = [
        Shown(decode_image(one["image"], f"an example of {task}"), _lines(one)) for one in rows
    ]
    file = output / "figures" / task / f"{safe_name(row.model)}_captions.png"
    write_item_sheet(shown, file, lines=LINES)
    return [file]


def _lines(row: Row) -> list[str]:
    """Return the captions of an image, each with its score."""
    return [f"{name} {row[f'{kind}_score']:.3g}: {row[kind]}" for name, kind in TOLD.items()]
