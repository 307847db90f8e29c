"""Figures of arXiv:2210.09550: matching scores, the square of scorers, and favourite captions.

`match_scores` corresponds to figures 2 and 3. For captions whose nouns or other words are replaced,
each model has a panel of bars. For templates with k nouns, it has a panel of lines along k: solid
for nouns in the references, dashed if the added nouns are absent from them. The scale of scores
differs between models, so that panels do not share an axis. `square` is table 2: models' favourites
by scorers. `words` is figure 4, the most frequent words of favourites, and `captions` is a sheet of
favourites.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from PIL.Image import Image

from vlbench.boards.board import Board
from vlbench.data.images import decode_image
from vlbench.drawing.layouts import (
    drawn,
    entitle,
    fitted,
    grid,
    is_at_left,
    percent,
    seat_legend,
    text_width,
)
from vlbench.drawing.looks import COLOURS, MARKS
from vlbench.drawing.sheets import CaptionedImage, image_sheet
from vlbench.errors import spaced
from vlbench.metrics.intervals import Floats
from vlbench.probes.captioning.kinds import BEFORE, FAVOURITES, MATCH, REFERENCE
from vlbench.results import Result, Score

# The replaced words of a caption, and the label of the bar.
BARS = {"none": "caption", "others": "other words\nreplaced", "nouns": "nouns\nreplaced"}

# Line styles of both kinds of nouns.
LINES: Any = {"true": "-", "absent": "--"}
KINDS = {"true": "nouns of the references", "absent": "added nouns of none"}

BAR: Any = {"width": 0.65, "edgecolor": "#333333", "linewidth": 0.6, "capsize": 3}

# The row of captions before the reward.
BEFORE_ROW = "captions before"

# The size of names, in points.
NAME = 8

WORDS = ("captions", "rank", "word", "part_of_speech", "share")

# Labels of captions under an image, their columns, and the columns of their scores.
TOLD = {"reference": REFERENCE, "before": BEFORE, "favourite": FAVOURITES}
EXAMPLES = ("image", *TOLD.values(), *(f"{name}_score" for name in TOLD.values()))

# Most words of a panel and images of a sheet; a row written by others may have more.
MOST_WORDS, MOST_IMAGES = 10, 12

# Most letters of a word.
LONGEST = 24

# The colours of parts of speech; the last is for all others.
OF_SPEECH = {
    "NOUN": "#0072b2",
    "VERB": "#d55e00",
    "ADJ": "#009e73",
    "ADP": "#cc79a7",
    "DET": "#e69f00",
    "CCONJ": "#56b4e9",
}
OTHER = "#999999"


def match_scores(board: Board, title: str) -> Figure | None:
    """Return the matching scores of each row of a board; None if no row has them."""
    rows = {row.model: row for row in board.results}
    draw = next((draw for draw, fits in DRAWN.items() if any(map(fits, rows.values()))), None)
    if draw is None:
        return None
    by_name = {name: row for name, row in sorted(rows.items()) if DRAWN[draw](row)}
    figure, panels = grid(len(by_name), (3.0, 2.6))
    for axes, (name, row) in zip(panels, by_name.items(), strict=True):
        draw(axes, [score for score in row.scores if score.metric == MATCH])
        axes.set_title(fitted(name, 2.4, 9), fontsize=9)
        axes.tick_params(labelsize=8)
        if is_at_left(axes):
            axes.set_ylabel("mean matching score", fontsize=8)
    entitle(figure, f"{title}: matching scores")
    if draw is _draw_lines:
        _seat_legend(figure, list(by_name.values()))
    return figure


def _draw_bars(axes: Axes, scores: Sequence[Score]) -> None:
    """Draw the scores of a caption and of its changed copies, with intervals."""
    by_words = {str(score.at["replaced"]): score for score in scores if "replaced" in score.at}
    names = [name for name in BARS if name in by_words]
    for place, name in enumerate(names):
        score = by_words[name]
        axes.bar([place], [score.value], color=COLOURS[place], yerr=_reach(score), **BAR)
    axes.set_xticks(range(len(names)), [BARS[name] for name in names])


def _draw_lines(axes: Axes, scores: Sequence[Score]) -> None:
    """Draw the scores of each template along the number of nouns, with intervals."""
    along: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        if "k" in score.at:
            key = str(score.at["template"]), str(score.at["nouns"])
            along.setdefault(key, []).append(score)
    names = list(dict.fromkeys(template for template, _ in along))
    for (template, kind), group in along.items():
        ordered = sorted(group, key=lambda score: float(score.at["k"]))
        reach = [_reach(score) for score in ordered]
        axes.errorbar(
            [float(score.at["k"]) for score in ordered],
            [score.value for score in ordered],
            yerr=[[pair[side][0] for pair in reach] for side in (0, 1)],
            **_line(names.index(template), LINES.get(kind, ":")),
            capsize=2,
        )
    ks = sorted({float(score.at["k"]) for group in along.values() for score in group})
    axes.set_xticks(ks, [f"{k:g}" for k in ks])
    axes.set_xlabel("nouns", fontsize=8)


def _seat_legend(figure: Figure, rows: Sequence[Result]) -> None:
    """Draw the legend of the templates and both kinds of nouns."""
    templates = [score.at["template"] for row in rows for score in row.scores if "k" in score.at]
    names = list(dict.fromkeys(map(str, templates)))
    handles = [Line2D([], [], **_line(i, "-")) for i in range(len(names))]
    handles += [Line2D([], [], color="#333333", linestyle=line) for line in LINES.values()]
    labels = [*(f"template of {name}" for name in names), *(KINDS[kind] for kind in LINES)]
    seat_legend(figure, handles, labels)


def _line(number: int, style: str) -> dict[str, Any]:
    colour, mark = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
    return {"color": colour, "marker": mark, "markersize": 4, "lw": 1.2, "linestyle": style}


def _reach(score: Score) -> list[list[float]]:
    """Return the length of the interval below and above a score, [2, 1]."""
    low, high = score.ci95 or (score.value, score.value)
    return [[max(score.value - low, 0.0)], [max(high - score.value, 0.0)]]


def _has(key: str) -> Any:
    """Return a function that tests whether a row has matching scores under a condition."""

    def fits(row: Result) -> bool:
        return any(score.metric == MATCH and key in score.at for score in row.scores)

    return fits


# The figures of rows with these scores.
DRAWN: Mapping[Any, Any] = {_draw_bars: _has("replaced"), _draw_lines: _has("k")}


def square(board: Board, title: str) -> Figure | None:
    """Return the square of the comparable rows of a board; None if there are none."""
    rows = _comparable_rows(board.results)
    return square_figure(title, rows) if rows else None


def square_figure(title: str, rows: Sequence[Result]) -> Figure:
    """Return mean scores by scorer of each row's favourites, and of captions before the reward.

    Each column is shaded from its lowest to its highest score, because scorers have different
    scales. An arrow shows that favourites score above or below the captions before the reward, if
    the interval of the difference excludes 0.
    """
    tables = {row.model: _scores(row, FAVOURITES) for row in rows}
    scorers = list(dict.fromkeys(name for table in tables.values() for name in table))
    arrows = {row.model: _arrows(row) for row in rows}
    tables[BEFORE_ROW] = {k: v for row in reversed(rows) for k, v in _scores(row, BEFORE).items()}
    values = np.array(
        [[_value(table.get(scorer)) for scorer in scorers] for table in tables.values()]
    )
    longest = max(text_width(name, NAME) for name in (*tables, *scorers))
    size = 1.6 + 0.75 * len(scorers) + longest, 1.0 + 0.42 * len(tables) + longest
    figure, (axes,) = grid(1, size)
    axes.spines[:].set_visible(False)
    shades = _shades(values)
    axes.imshow(shades, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    units = {name: score.unit for table in tables.values() for name, score in table.items()}
    labels = [drawn(f"{name}\n({units[name]})") for name in scorers]
    axes.set_xticks(range(len(scorers)), labels, rotation=90)
    axes.set_yticks(range(len(tables)), [drawn(name) for name in tables])
    axes.tick_params(length=0, labelsize=NAME)
    for i, (model, table) in enumerate(tables.items()):
        for j, scorer in enumerate(scorers):
            if scorer in table:
                label = f"{table[scorer].value:.3g}{arrows.get(model, {}).get(scorer, '')}"
                colour = "white" if shades[i, j] > 0.6 else "black"
                axes.text(j, i, label, ha="center", va="center", color=colour, fontsize=NAME)
    axes.set_xlabel("scorer", fontsize=NAME)
    axes.set_ylabel("captions that this model likes", fontsize=NAME)
    entitle(figure, title)
    return figure


def _comparable_rows(rows: Iterable[Result]) -> list[Result]:
    """Return the largest set of comparable rows with these scores."""
    chosen = [row for row in rows if _scores(row, FAVOURITES)]
    often = Counter(row.comparable for row in chosen)
    return [row for row in chosen if row.comparable == max(often, key=often.__getitem__)]


def _scores(row: Result, kind: str) -> dict[str, Score]:
    """Return the score of a kind of captions by scorer."""
    return {
        str(score.at["scorer"]): score
        for score in row.scores
        if score.metric == MATCH and set(score.at) == {"scorer", "captions"}
        if score.at["captions"] == kind
    }


def _arrows(row: Result) -> dict[str, str]:
    """Return the arrow of each scorer whose gain has an interval that excludes 0."""
    gains = [score for score in row.scores if score.metric == f"{MATCH}_gain" and score.ci95]
    named: Mapping[str, Score] = {str(s.at["scorer"]): s for s in gains if set(s.at) == {"scorer"}}
    up = {name: "↑" for name, score in named.items() if score.ci95 and score.ci95[0] > 0}
    return up | {name: "↓" for name, score in named.items() if score.ci95 and score.ci95[1] < 0}


def _value(score: Score | None) -> float:
    return np.nan if score is None else score.value


def _shades(values: Floats) -> Floats:
    """Scale each column of [K, L] values to 0 for its lowest and 1 for its highest value."""
    low, high = np.nanmin(values, 0), np.nanmax(values, 0)
    shades: Floats = (values - low) / np.where(high > low, high - low, 1.0)
    return shades


# A row of a table, and a function that reads columns of a table stored with a row of a board.
Row = Mapping[str, Any]
ReadTable = Callable[[Result, str, Sequence[str]], Sequence[Row]]


def words(row: Result, title: str, read_table: ReadTable) -> Figure | None:
    """Return the most frequent words of a row; None if it has no table of words."""
    words = read_table(row, "unigrams", WORDS) if "unigrams" in row.artifacts else []
    return word_figure(f"{title}: {row.model}", words) if words else None


def captions(row: Result, read_table: ReadTable) -> Image | None:
    """Return a sheet of captions of a row; None if it has no examples with images."""
    examples = read_table(row, "examples", EXAMPLES) if "examples" in row.artifacts else []
    pictures = [
        CaptionedImage(decode_image(example["image"], f"an example of {row.task}"), _lines(example))
        for example in examples[:MOST_IMAGES]
    ]
    return image_sheet(pictures) if pictures else None


def word_figure(title: str, words: Sequence[Row]) -> Figure:
    """Return a panel per kind of captions with its most frequent words, the first on top."""
    kinds = list(dict.fromkeys(str(word["captions"]) for word in words))
    longest = max(text_width(_cut_word(word), 8) for word in words)
    figure, panels = grid(len(kinds), (2.4 + longest, 2.6))
    for panel, kind in zip(panels, kinds, strict=True):
        ranked = sorted((row for row in words if row["captions"] == kind), key=lambda o: o["rank"])
        _draw_words(panel, ranked[:MOST_WORDS])
        panel.set_title(drawn(spaced(kind)), fontsize=9)
    entitle(figure, title)
    seen = {_legend_name(word["part_of_speech"]) for word in words}
    names = [name for name in (*OF_SPEECH, "other") if name in seen]
    seat_legend(figure, [Patch(color=OF_SPEECH.get(name, OTHER)) for name in names], names)
    return figure


def _draw_words(panel: Axes, words: Sequence[Row]) -> None:
    places = range(len(words))
    colours = [OF_SPEECH.get(word["part_of_speech"], OTHER) for word in words]
    panel.barh(places, [word["share"] for word in words], color=colours)
    panel.set_yticks(places, [drawn(_cut_word(word)) for word in words])
    panel.set_ylim(MOST_WORDS - 0.4, -0.6)
    panel.tick_params(labelsize=8, axis="y", length=0)
    panel.xaxis.set_major_formatter(percent)
    panel.set_xlabel("share of all words (%)", fontsize=8)


def _cut_word(word: Row) -> str:
    """Return a word, cut if it is too long."""
    return str(word["word"])[:LONGEST]


def _legend_name(part: str) -> str:
    return part if part in OF_SPEECH else "other"


def _lines(row: Row) -> list[str]:
    """Return the captions of an image, each with its score."""
    return [f"{name} {row[f'{kind}_score']:.3g}: {row[kind]}" for name, kind in TOLD.items()]
