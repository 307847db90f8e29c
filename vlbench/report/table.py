"""The table of a board: comparable rows, best first, with what it takes to judge each score.

The terminal, the exports and the page print it: which rows share a table, in which order, and what
their cells contain is decided only here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from vlbench.boards.board import Board
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import spaced
from vlbench.report.data_sets import by_data, set_names
from vlbench.report.leaders import BEHIND, BEST, TIED, Leaders, standing
from vlbench.report.rows import Published, comparable_sets, published, ranked, unpublished
from vlbench.report.texts import hardest_floor, lead, number, probability, score_name
from vlbench.results import Result, Score

# A number as a text, with its unit or, where the head of its column has that, without.
Number = Callable[[float, str], str]

# The columns beside each primary score, in this order.
STANDING, PUBLISHED = "against the leader", "published"
APART = "not comparable"
HEADS = ("95 % interval", "n", "chance", "highest floor", STANDING, PUBLISHED)


class Entry(NamedTuple):
    """A row of a table.

    `primary` is the score that represents the task, None if the row lacks it; `published` has what
    a paper gives for each score, or None; `standing` is that against the leader, or empty, and `p`
    its p-value where it was tested, and `detectable` the difference that would have been found. A
    row that `is_apart` is not comparable with the others of its table. `data` is the name of its
    data on its board.
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
    def label(self) -> str:
        """The model's name, whether it is a control, and how a model that generates was asked."""
        return self.row.label

    @property
    def reference(self) -> Published | None:
        """What a paper gives for the primary score."""
        pairs = zip(self.row.scores, self.published, strict=True)
        return next((given for score, given in pairs if score is self.primary), None)

    @property
    def is_best(self) -> bool:
        """Whether the model is told apart from every other one of its set."""
        return self.standing == BEST


class ScoreTable(NamedTuple):
    """Rows that may be compared, best first; those without the score are last, then controls.

    A single row of the same data that cannot be compared with them is below, marked. `place` is the
    number of the table and how many the board has, `set_name` what sets it apart from these.
    `leaders` are those of the set where they are known.
    """

    title: str
    primary: Mapping[str, Any]
    entries: Sequence[Entry]
    leaders: Leaders | None = None
    place: tuple[int, int] = (1, 1)
    set_name: str = ""

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
        """The rows of models, which know something of their inputs."""
        return [entry for entry in self.entries if not entry.row.is_control]

    @property
    def controls(self) -> list[Entry]:
        """The rows of controls, which know nothing of theirs."""
        return [entry for entry in self.entries if entry.row.is_control]

    @property
    def scores(self) -> list[Score]:
        """The primary scores that there are."""
        return [entry.primary for entry in self.entries if entry.primary]

    @property
    def heads(self) -> list[str]:
        """Those of `HEADS` under which something is known, or could be of any table."""
        known = {STANDING: bool(self.leaders and self.leaders.p)}
        known[STANDING] |= any(entry.is_apart for entry in self.entries)
        known[PUBLISHED] = any(entry.reference for entry in self.entries)
        return [head for head in HEADS if known.get(head, True)]


def table_of(
    title: str,
    primary: Mapping[str, Any],
    rows: Sequence[Result],
    leaders: Leaders | None = None,
    spec: TaskSpec | None = None,
) -> ScoreTable:
    """Return the table of rows that may be compared with each other, equal ones by name.

    `spec` is their task, where it is known: publishable rows have its published values.
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
        known = spec if spec and not unpublished(row) else None
        given = [published(known, row.model, one) if known else None for one in row.scores]
        stands, detectable = standing(row.model, leaders), leaders.detectable if leaders else {}
        one = Entry(row, score, given, stands, p.get(row.model), detectable.get(row.model, 0.0))
        entries.append(one)
    return sorted(entries, key=lambda entry: entry.row.is_control)


def tables_of(
    board: Board, leaders: Mapping[str, Leaders], spec: TaskSpec | None = None
) -> list[ScoreTable]:
    """Return a table for each set of comparable rows: data with most rows first, then by name.

    A set of one row is put in the first table of its data, marked. `leaders` are given by
    `comparable`.
    """
    by_size = sorted(by_data(board.results).items(), key=lambda one: (-len(one[1]), one[0]))
    tables = [
        table._replace(entries=[entry._replace(data=data) for entry in table.entries])
        for data, rows in by_size
        for table in _tables_of_data(board, rows, leaders, spec)
    ]
    if len(tables) < 2:
        return tables
    return [
        table._replace(
            title=f"{table.title}, not comparable with the others: {table.set_name}",
            place=(i, len(tables)),
        )
        for i, table in enumerate(tables, 1)
    ]


def _tables_of_data(
    board: Board, rows: Sequence[Result], leaders: Mapping[str, Leaders], spec: TaskSpec | None
) -> list[ScoreTable]:
    """Return a table for each set of comparable rows of the same data, the largest first."""
    names = set_names(board.results)
    by_size = sorted(comparable_sets(rows).items(), key=lambda one: -len(one[1]))
    sets = [one for i, one in enumerate(by_size) if i == 0 or len(one[1]) > 1]
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
    """Return the title of a task: that of its file, or of its rows, or its name in plain words."""
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
    """Return the cells beside an entry's primary score, by `HEADS`; empty is what is unknown."""
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


def _standing_text(entry: Entry, unit: str) -> str:
    """Return how a model compares: behind with its p, tied with what would have been found."""
    if entry.is_apart:
        return APART
    if entry.standing == BEHIND and entry.p is not None:
        return f"{BEHIND}, {probability(entry.p)}"
    if entry.standing == TIED and entry.detectable:
        return f"{TIED}, detectable {lead(entry.detectable, unit).removeprefix('+')}"
    return entry.standing


def interval(score: Score) -> str:
    """Return the 95 % interval of a score, both ends with the same decimals; empty without one.

    Fractions are percentages with one, correlations have three; of others, the larger end has four
    significant digits.
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
    """Return the floor that is hardest to beat, and its name."""
    floor = hardest_floor(score)
    return f"{number(floor[1], score.unit)} {spaced(floor[0])}" if floor else ""


def _published_number(paper: Published | None, unit: str, number: Number) -> str:
    """Return a paper's number, where it is, and how far ours lies above it."""
    if paper is None:
        return ""
    errors = "" if paper.in_stderr is None else f", {paper.in_stderr:+.1f} SE"
    ours = f"ours {lead(paper.difference, unit)}{errors}"
    return f"{number(paper.value, unit)}, {paper.where} ({ours})"


def key_of(score: Score) -> Hashable:
    """Return what names a score within its row."""
    return score.metric, frozenset(score.at.items())


def other_scores(table: ScoreTable) -> list[Score]:
    """Return one score of each metric and conditions that are not the primary ones.

    Those under the primary score's conditions come first.
    """
    at = frozenset(table.primary.get("at", {}).items())
    scores: dict[Hashable, Score] = {}
    for entry in table.entries:
        for score in entry.row.scores:
            scores.setdefault(key_of(score), score)
    scores.pop((table.primary["metric"], at), None)
    return sorted(scores.values(), key=lambda score: frozenset(score.at.items()) != at)
