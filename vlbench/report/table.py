"""The table of a board: comparable rows, best first, with the context of each score.

The terminal, the exports and the page print it: which rows share a table, their order, and the
content of the cells are decided only here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from vlbench.boards.board import Board
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import spaced
from vlbench.report.data_sets import by_data, set_names
from vlbench.report.leaders import BEHIND, BEST, TIED, Leaders, standing
from vlbench.report.notes import joined_notes, notes_of
from vlbench.report.rows import (
    Published,
    comparable_sets,
    published,
    ranked,
    ties_mark,
    unpublished,
)
from vlbench.report.texts import few, hardest_floor, lead, number, probability, score_name, value
from vlbench.results import Result, Score

# Formats a number, with its unit, or without it if the head of the column contains the unit.
Number = Callable[[float, str], str]

# The columns beside each primary score, in this order.
STANDING, PUBLISHED = "against the leader", "published"
APART = "not comparable"
HEADS = ("95 % interval", "n", "chance", "highest floor", STANDING, PUBLISHED)

# The scores of `directionless`, and the most scores of a kind that it lists for a model.
WITHOUT_DIRECTION = "neither higher nor lower is better"
MOST_OF_KIND = 48


class Entry(NamedTuple):
    """A row of a table.

    `primary` is the score that represents the task, None if the row has no such score. `published`
    has the paper's value for each score, or None. `standing` is the standing against the leader, or
    empty; `p` is its p-value if it was tested, and `detectable` the smallest difference that the
    test would have detected. A row that `is_apart` is not comparable with the other rows of its
    table. `data` is the name of its data on its board.
    """

    row: Result
    primary: Score | None
    published: Sequence[Published | None]
    standing: str = ""
    p: float | None = None
    detectable: float = 0.0
    is_apart: bool = False
    data: str = ""

    @property
    def reference(self) -> Published | None:
        """The paper's value for the primary score."""
        pairs = zip(self.row.scores, self.published, strict=True)
        return next((reference for score, reference in pairs if score is self.primary), None)

    @property
    def is_best(self) -> bool:
        """Whether the model differs significantly from every other model of its set."""
        return self.standing == BEST


class ScoreTable(NamedTuple):
    """Rows that may be compared, best first; rows without the score come later, then controls.

    A single row of the same data that is not comparable with them is included with a mark. `place`
    is the number of the table and the number of tables of the board, `set_name` what distinguishes
    it from the other tables. `heading` names it and the tables before it, and is empty for a single
    table. `leaders` are the leaders of the set, if known.
    """

    title: str
    primary: Mapping[str, Any]
    entries: Sequence[Entry]
    leaders: Leaders | None = None
    place: tuple[int, int] = (1, 1)
    set_name: str = ""
    heading: str = ""

    @property
    def data(self) -> str:
        """The name of the data of its rows."""
        return self.entries[0].data

    @property
    def name(self) -> str:
        """The name of the primary score."""
        return score_name(self.primary["metric"], self.primary.get("at", {}))

    @property
    def models(self) -> list[Entry]:
        """The rows of models that are not controls."""
        return [entry for entry in self.entries if not entry.row.is_control]

    @property
    def controls(self) -> list[Entry]:
        """The rows of controls, which ignore their inputs."""
        return [entry for entry in self.entries if entry.row.is_control]

    @property
    def scores(self) -> list[Score]:
        """The primary scores of the rows that have one."""
        return [entry.primary for entry in self.entries if entry.primary]

    @property
    def notes(self) -> list[str]:
        """The notes of its rows, with the models that they are about."""
        return joined_notes((entry.row, "") for entry in self.entries)

    @property
    def heads(self) -> list[str]:
        """The columns to show: always-present ones, and others that have a value."""
        visible = {STANDING: bool(self.leaders and self.leaders.p)}
        visible[STANDING] |= any(entry.is_apart for entry in self.entries)
        visible[PUBLISHED] = any(entry.reference for entry in self.entries)
        return [head for head in HEADS if visible.get(head, True)]


def table_of(
    title: str,
    primary: Mapping[str, Any],
    rows: Sequence[Result],
    leaders: Leaders | None = None,
    spec: TaskSpec | None = None,
) -> ScoreTable:
    """Return the table of comparable rows, ties sorted by name.

    `spec` is their task, if known: publishable rows get its published values.
    """
    return ScoreTable(title, primary, _entries(primary, rows, leaders, spec), leaders)


def _entries(
    primary: Mapping[str, Any],
    rows: Sequence[Result],
    leaders: Leaders | None,
    spec: TaskSpec | None,
) -> list[Entry]:
    p = leaders.p if leaders else {}
    entries = []
    for row, score in ranked(sorted(rows, key=lambda row: row.model), primary):
        task = spec if spec and not unpublished(row) else None
        values = [published(task, row.model, one) if task else None for one in row.scores]
        stands, detectable = standing(row.model, leaders), leaders.detectable if leaders else {}
        entry = Entry(row, score, values, stands, p.get(row.model), detectable.get(row.model, 0.0))
        entries.append(entry)
    return sorted(entries, key=lambda entry: entry.row.is_control)


def tables_of(
    board: Board, leaders: Mapping[str, Leaders], spec: TaskSpec | None = None
) -> list[ScoreTable]:
    """Return a table for each set of comparable rows: data with the most rows first, then by name.

    A set of one row is put in the first table of its data, with a mark. `leaders` are by
    `comparable`.
    """
    by_size = sorted(by_data(board.results).items(), key=lambda pair: (-len(pair[1]), pair[0]))
    tables = [
        table._replace(entries=[entry._replace(data=data) for entry in table.entries])
        for data, rows in by_size
        for table in _tables_of_data(board, rows, leaders, spec)
    ]
    if len(tables) < 2:
        return tables
    names = [table.set_name for table in tables]
    apart = ["", *(f"; not comparable with {few(names[:i])}" for i in range(1, len(names)))]
    return [
        table._replace(
            title=f"{table.title}, on {name}{others}",
            heading=f"On {name}{others}",
            place=(i, len(tables)),
        )
        for i, (table, name, others) in enumerate(zip(tables, names, apart, strict=True), 1)
    ]


def _tables_of_data(
    board: Board, rows: Sequence[Result], leaders: Mapping[str, Leaders], spec: TaskSpec | None
) -> list[ScoreTable]:
    """Return a table for each set of comparable rows of the same data, the largest first."""
    names = set_names(board.results)
    by_size = sorted(
        comparable_sets(rows).items(),
        key=lambda pair: (bool(pair[1][0].task_params), -len(pair[1])),
    )
    sets = [pair for i, pair in enumerate(by_size) if i == 0 or len(pair[1]) > 1]
    alone = [row for _, same in by_size[len(sets) :] for row in same]
    tables = []
    for key, same in sets:
        table = table_of(heading(board, spec), board.primary, same, leaders.get(key), spec)
        tables.append(table._replace(set_name=names[key]))
    if alone:
        marked = [e._replace(is_apart=True) for e in _entries(board.primary, alone, None, spec)]
        both = [*tables[0].entries, *marked]
        both.sort(key=lambda entry: (entry.row.is_control, entry.is_apart))
        tables[0] = tables[0]._replace(entries=both)
    return tables


def title_of(name: str, spec: TaskSpec | None, board: Board | None = None) -> str:
    """Return the title of a task: from its file, from its rows, or its name in plain words."""
    return _own_title(spec, board) or spaced(name).capitalize()


def _own_title(spec: TaskSpec | None, board: Board | None) -> str:
    if spec or not board:
        return spec.title if spec else ""
    titles = (row.provenance.get("title", "") for row in board.results)
    return next(filter(None, titles), "")


def heading(board: Board, spec: TaskSpec | None) -> str:
    """Return the heading of a board's table: its title, name and version."""
    version = f"version {board.version}"
    if title := _own_title(spec, board):
        return f"{title} ({board.task}, {version})"
    return f"{board.task} ({version})"


def cells(entry: Entry, number: Number = number) -> dict[str, str]:
    """Return the cells beside an entry's primary score, by `HEADS`; empty if unknown."""
    score = entry.primary
    if score is None:
        return dict.fromkeys(HEADS, "")
    texts = (
        interval(score),
        f"{score.n:,}",
        "" if score.chance is None else number(score.chance, score.unit),
        _floor(score, number),
        _standing_text(entry, score.unit),
        _published_number(entry.reference, score.unit, number),
    )
    return dict(zip(HEADS, texts, strict=True))


def row_texts(entry: Entry, heads: Sequence[str] = HEADS) -> list[str]:
    """Return the name, the primary score and the cells under some heads; empty if unknown."""
    score, row, beside = entry.primary, entry.row, cells(entry)
    partial = " (partial)" if row.is_partial else ""
    text = f"{value(score)}{ties_mark(row)}{partial}" if score else ""
    return [row.label, text, *(beside[head] for head in heads)]


def _standing_text(entry: Entry, unit: str) -> str:
    """Return how a model compares: behind with p, or tied, and which difference would show."""
    if entry.is_apart:
        return APART
    if entry.standing == BEHIND and entry.p is not None:
        return f"{BEHIND}, {probability(entry.p)}"
    if entry.standing == TIED and entry.detectable:
        return f"{TIED}; {lead(entry.detectable, unit).removeprefix('+')} would show"
    return entry.standing


def interval(score: Score) -> str:
    """Return the 95 % interval of a score, both ends with the same decimals; empty without one.

    Fractions are percentages with one decimal, and correlations have three decimals. For other
    units, the end with the larger absolute value has four significant digits.
    """
    if not score.ci95:
        return ""
    if score.unit == "fraction":
        low, high = (100.0 * end for end in score.ci95)
        return f"{low:z.1f} to {high:z.1f}"
    low, high = score.ci95
    if score.unit == "correlation":
        return f"{low:z.3f} to {high:z.3f}"
    exponent = int(f"{max(abs(low), abs(high)):e}".partition("e")[2])
    form = f"z.{max(0, 3 - exponent)}f" if -5 < exponent < 10 else ".3e"
    return f"{low:{form}} to {high:{form}}"


def _floor(score: Score, number: Number) -> str:
    """Return the value and name of the floor that is hardest to beat."""
    floor = hardest_floor(score)
    return f"{number(floor[1], score.unit)} {spaced(floor[0])}" if floor else ""


def _published_number(paper: Published | None, unit: str, number: Number) -> str:
    """Return a paper's number, its place, and the difference of our score from it."""
    if paper is None:
        return ""
    errors = "" if paper.in_stderr is None else f", {paper.in_stderr:+.1f} SE"
    ours = f"ours {lead(paper.difference, unit)}{errors}"
    return f"{number(paper.value, unit)}, {paper.where} ({ours})"


def directionless(table: ScoreTable, number: Number = number) -> list[list[str]]:
    """Return the head and rows of a table of scores without a direction, primary scores first.

    It is empty if there are no such scores. If a model has more than MOST_OF_KIND scores of a
    metric under the same kinds of conditions, only their number is listed.
    """
    rows = [["model", "score", "value", "95 % interval", "floor"]]
    for entry in table.entries:
        scores = [score for score in entry.row.scores if score.higher_is_better is None]
        kinds = Counter((score.metric, *score.at) for score in scores)
        for score in sorted(scores, key=lambda score: score is not entry.primary):
            if kinds[score.metric, *score.at] <= MOST_OF_KIND:
                name = score_name(spaced(score.metric), score.at)
                context = value(score, number), interval(score), _floor(score, number)
                rows.append([entry.row.label, name, *context])
        for (metric, *conditions), count in kinds.items():
            if count > MOST_OF_KIND:
                name = f"{spaced(metric)} by {', '.join(conditions)}"
                rows.append([entry.row.label, name, f"{count:,} scores", "", ""])
    return rows if len(rows) > 1 else []


def score_columns(row: Result, score: Score) -> dict[str, Any]:
    """Return what a row states of a score, by column, for frames, CSV and JSON."""
    values = asdict(score)
    del values["range"]
    low, high = values.pop("ci95") or (None, None)
    notes = " | ".join(notes_of(row))
    return {"notes": notes, **values, "ci95_low": low, "ci95_high": high}


def key_of(score: Score) -> Hashable:
    """Return what identifies a score within its row."""
    return score.metric, frozenset(score.at.items())


def other_scores(table: ScoreTable) -> list[Score]:
    """Return one score of each metric and conditions except the primary score.

    Scores under the primary score's conditions come first.
    """
    at = frozenset(table.primary.get("at", {}).items())
    scores: dict[Hashable, Score] = {}
    for entry in table.entries:
        for score in entry.row.scores:
            scores.setdefault(key_of(score), score)
    scores.pop((table.primary["metric"], at), None)
    return sorted(scores.values(), key=lambda score: frozenset(score.at.items()) != at)
