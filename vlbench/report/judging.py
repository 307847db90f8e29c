"""Judges by 95 % intervals whether boards support findings.

Two scores of one task are compared over their items if their rows keep items (paired). Any other
difference of means of scores has the interval of Zou & Donner 2008 (doi:10.1002/sim.3095), which is
made of the intervals of the scores, and equals the usual interval if these are symmetric. It
assumes that scores are independent (unpaired), and that floors and chance are exact.

Each comparison is two one-sided tests at 2.5 %. A p-value is the level at which the 95 % interval,
stretched by normal quantiles on each side, would just reach the limit. A finding of m comparisons
is supported if every comparison is supported, without a correction, since all must hold
(intersection-union, Berger 1982). It is contradicted if the smallest p against is at most 2.5 % / m
(Bonferroni, the first step of Holm).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Any, NamedTuple

from vlbench.boards.artifacts import read_items
from vlbench.boards.board import Board, board_file, read_board
from vlbench.boards.joins import RowItems, compare, items_of
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.data_sets import is_drawn_by
from vlbench.catalog.findings import Comparison, Finding, Side
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import DataError
from vlbench.metrics.intervals import Z95
from vlbench.metrics.matrix_kinds import OF_PAIRS
from vlbench.report.data_sets import data_names
from vlbench.report.rows import publishable, unpublished
from vlbench.results import ITEMS, VOID, Range, Result, Score, matching

Boards = Mapping[str, Board | None]
Rows = Mapping[tuple[str, str], Result]
SUPPORTED, UNDECIDED, CONTRADICTED, MISSING = "supported", "undecided", "contradicted", "missing"
# The level of each of the two one-sided tests.
LEVEL = 0.025


class Lack(NamedTuple):
    """A missing row or score, and the reason."""

    model: str
    task: str
    why: str


def read_boards(output: Path, specs: Iterable[TaskSpec]) -> dict[str, Board | None]:
    """Return the board of each task, and the summary of each group; None if there is no file."""
    folders = {spec.name: output / "summaries" if spec.group else output for spec in specs}
    return {name: read_board(board_file(folder, name)) for name, folder in folders.items()}


class Evidence(NamedTuple):
    """The evidence for findings: the boards of a folder, and its tasks and models."""

    boards: Boards
    catalog: Catalog
    output: Path

    def row(self, task: str, model: str) -> Result | Lack:
        """Return a model's row on a task, as `counted_row` does."""
        spec = self.catalog.tasks[task]
        if is_drawn(spec, self.catalog):
            return Lack(
                model, task, "synthetic images are not evidence; findings are judged on real data"
            )
        row = counted_row(self.boards[task], spec, model)
        voids = [] if isinstance(row, Lack) else [VOID[n] for n in VOID if row.counts.get(n)]
        return Lack(model, task, voids[0]) if voids else row


def is_drawn(spec: TaskSpec, catalog: Catalog) -> bool:
    """Return whether a task, or a task of a group, uses synthetic images of vlbench."""
    members = [catalog.tasks[name] for name in spec.group] or [spec]
    return any(is_drawn_by(str(member.data.get("loader", ""))) for member in members)


def counted_row(board: Board | None, spec: TaskSpec, model: str) -> Result | Lack:
    """Return a model's row if it is publishable and of the task's version."""
    if board is None:
        return Lack(model, spec.name, "no board")
    if not spec.group and board.version != spec.version:
        why = f"the board is of version {board.version}, the task of version {spec.version}"
        return Lack(model, spec.name, why)
    result = publishable(board.results).get(model)
    return result or Lack(model, spec.name, _why_not(board.results, model))


def _why_not(results: Sequence[Result], model: str) -> str:
    """Return why none of a model's rows on a board is publishable, or that several are."""
    rows, names = [row for row in results if row.model == model], data_names(results)
    ok = [row for row in rows if row.status == "ok"]
    if not ok:
        return ", ".join(f"{row.status}: {row.reason}" for row in rows) or "no row"
    if good := [row for row in ok if not unpublished(row)]:
        data = sorted({names[row.comparable] for row in good})
        of = f" of {', '.join(data)}" if len(data) > 1 else ""
        return f"{len(good)} rows{of}, and it is unknown which to use"
    if any(row.is_partial for row in ok):
        return "a row of incomplete data"
    return f"a row of {unpublished(ok[0])}"


class Pairing(NamedTuple):
    """The 95 % interval of a paired difference; if there is none, why items cannot be joined."""

    ci95: tuple[float, float] | None = None
    why: str = ""


def pair(comparison: Comparison, rows: Rows, evidence: Evidence) -> Pairing:
    """Compare two scores of one task under the same conditions if both rows keep items.

    `rows` are the rows of a finding, by task and model.
    """
    sides = [_single(side, rows) for side in comparison.sides]
    if len(sides) < 2 or not all(sides):
        return Pairing()
    first, second = comparison.sides
    if (first.tasks, first.at) != (second.tasks, second.at):
        return Pairing()
    try:
        a = _items(first, rows, evidence.output)
        b = _items(second, rows, evidence.output, a)
        return Pairing(compare(a, b, higher_is_better=True).ci95)
    except DataError as error:
        return Pairing(why=str(error))


def _single(side: Side, rows: Rows) -> bool:
    """Return whether a side is a single score (not a floor) of a row that keeps items."""
    if len(side.tasks) * len(side.models) * len(side.at) > 1 or side.floor:
        return False
    row = rows.get((side.tasks[0], side.models[0]))
    return row is not None and ITEMS in row.artifacts


def _items(side: Side, rows: Rows, output: Path, like: RowItems | None = None) -> RowItems:
    """Return the items of a side that is one score; `like` are the items of the other side."""
    row = rows[side.tasks[0], side.models[0]]
    (score,) = matching(row.scores, {"metric": side.metric, "at": side.at[0]})
    return items_of(row.model, read_items(output, row), score, like)


class Term(NamedTuple):
    """A score, or a floor of it, in a sum; `ci95` is None if a score has no interval.

    `floor` is the hardest floor of a score, None if the score has no floor besides chance.
    """

    key: tuple[str, ...]
    value: float
    ci95: tuple[float, float] | None
    unit: str
    limits: Range = (None, None)
    floor: float | None = None


class Compared(NamedTuple):
    """A comparison, the values of its sides, and the interval of the side or of the difference.

    `how` states whether a difference is over paired items, and if rows keep items, why not. `p_for`
    and `p_against` are one-sided: small if the data support the finding, or contradict it.
    """

    comparison: Comparison
    verdict: str
    values: Sequence[float]
    interval: tuple[float, float] | None
    unit: str
    how: str
    p_for: float
    p_against: float


class Judgement(NamedTuple):
    """A finding's verdict with its comparisons, or the rows that are missing."""

    finding: Finding
    verdict: str
    compared: Sequence[Compared] = ()
    lacks: Sequence[Lack] = ()
    p_for: float = 1.0
    p_against: float = 1.0


def judge(finding: Finding, evidence: Evidence) -> Judgement:
    """Return whether boards support a finding, contradict it, or leave it undecided or missing.

    A finding of several comparisons is supported only by all of them and contradicted by any.
    """
    rows, lacks = _rows(finding, evidence)
    sides_of_each = [
        [_terms(side, i, rows, evidence.catalog) for i, side in enumerate(comparison.sides)]
        for comparison in finding.comparisons
    ]
    terms = [term for sides in sides_of_each for side in sides for term in side]
    lacks += [term for term in terms if isinstance(term, Lack)]
    if finding.needs or lacks:
        return Judgement(finding, MISSING, lacks=list(dict.fromkeys(lacks)))
    compared = [
        _compared(
            comparison,
            [[term for term in side if isinstance(term, Term)] for side in sides],
            len(sides_of_each),
            pair(comparison, rows, evidence),
        )
        for comparison, sides in zip(finding.comparisons, sides_of_each, strict=True)
    ]
    p_for = max(test.p_for for test in compared)
    p_against = min(1.0, len(sides_of_each) * min(test.p_against for test in compared))
    return Judgement(finding, verdict(p_for, p_against), compared, p_for=p_for, p_against=p_against)


def verdict(p_for: float, p_against: float) -> str:
    """Return the verdict that follows from the p-values of a finding or a comparison."""
    if p_for <= LEVEL:
        return SUPPORTED
    return CONTRADICTED if p_against <= LEVEL else UNDECIDED


def tasks_of(side: Side, catalog: Catalog) -> list[str]:
    """Return the tasks whose boards contain a side's scores; for scores of pairs, the groups."""
    groups = {} if side.metric in OF_PAIRS else catalog.tasks
    return [
        name
        for task in side.tasks
        for name in (groups[task].group if task in groups else ()) or [task]
    ]


def _rows(finding: Finding, evidence: Evidence) -> tuple[dict[tuple[str, str], Result], list[Lack]]:
    """Return the rows that a finding compares, by task and model, and its missing rows.

    On each task, rows must be comparable with the first row.
    """
    catalog = evidence.catalog
    pairs = [p for side in finding.sides for p in product(tasks_of(side, catalog), side.models)]
    terms = {pair: evidence.row(*pair) for pair in dict.fromkeys(pairs)}
    rows = {pair: row for pair, row in terms.items() if isinstance(row, Result)}
    lacks = [row for row in terms.values() if isinstance(row, Lack)]
    first: dict[str, Result] = {}
    for (task, model), row in rows.items():
        if row.comparable != first.setdefault(task, row).comparable:
            lacks.append(Lack(model, task, f"not comparable with {first[task].model}'s row"))
    return rows, lacks


def _terms(
    side: Side, place: int, rows: Mapping[tuple[str, str], Result], catalog: Catalog
) -> list[Term | Lack]:
    """Return the scores that a side averages; a Lack for each score missing in its row.

    `place` is 0 for the side that is claimed to be greater, 1 for the other side.
    """
    pairs = [pair for pair in product(tasks_of(side, catalog), side.models) if pair in rows]
    return [_term(side, place, rows[pair], at, pair[0]) for pair in pairs for at in side.at]


def _term(side: Side, place: int, row: Result, at: Mapping[str, Any], task: str) -> Term | Lack:
    match = matching(row.scores, {"metric": side.metric, "at": at})
    spelled = ", ".join(f"{name} {value}" for name, value in at.items())
    if not match:
        why = f"no score {side.metric}{' at ' if spelled else ''}{spelled}"
        return Lack(row.model, task, why)
    score = match[0]
    key = (task, row.model, side.metric, spelled, side.floor)
    hardest = _hardest_floor(score)
    if not side.floor:
        floor = hardest if score.floors else None
        return Term(key, score.value, _interval(score), score.unit, score.limits, floor)
    floors = {**score.floors, "chance": hardest if place else score.chance}
    floor = floors.get(side.floor)
    if floor is None:
        return Lack(row.model, task, f"no {side.floor} beside its {side.metric}")
    return Term(key, floor, (floor, floor), score.unit)


def _hardest_floor(score: Score) -> float | None:
    """Return what a score must exceed to mean anything: the greatest of chance and its floors.

    For a score that is better the lower it is, only chance counts.
    """
    floors = [score.chance, *(score.floors.values() if not score.lower_is_better else ())]
    return max((value for value in floors if value is not None), default=None)


def _interval(score: Score) -> tuple[float, float] | None:
    if score.ci95 or score.stderr is None:
        return score.ci95
    return score.value - Z95 * score.stderr, score.value + Z95 * score.stderr


def _compared(
    comparison: Comparison, sides: Sequence[Sequence[Term]], comparisons: int, paired: Pairing
) -> Compared:
    """Return one of `comparisons` comparisons with its verdict and both p-values."""
    values = [fmean(term.value for term in side) for side in sides]
    interval = paired.ci95 or difference_interval(sides)
    how = "paired" if paired.ci95 else f"unpaired ({paired.why})" if paired.why else "unpaired"
    p_for, p_against = 1.0, 1.0
    if interval:
        value = values[0] - (values[1] if len(values) > 1 else 0.0)
        low, high = _limits(comparison, sides)
        # An interval may touch the end of a range; a tie with an interval of zero width is
        # undecided.
        outside = (
            tail(value, interval, low - _touch(low)),
            tail(value, interval, high + _touch(high)),
        )
        above = tail(value, interval, low + _touch(low)) if len(sides) > 1 else outside[0]
        p_for, p_against = max(above, 1 - outside[1]), min(1 - outside[0], outside[1])
        if len({tuple(side.models) for side in comparison.sides if not side.floor}) > 1:
            blind = max(_p_of_floor(term) for side in sides for term in side)
            p_for, p_against = max(p_for, blind), max(p_against, blind)
    outcome = verdict(p_for, min(1.0, comparisons * p_against))
    return Compared(comparison, outcome, values, interval, sides[0][0].unit, how, p_for, p_against)


def _p_of_floor(term: Term) -> float:
    """Return the one-sided p that a score does not exceed its hardest floor; 0 without floors."""
    if term.floor is None:
        return 0.0
    return tail(term.value, term.ci95, term.floor) if term.ci95 else 1.0


def _limits(comparison: Comparison, sides: Sequence[Sequence[Term]]) -> tuple[float, float]:
    """Return the limits of a value; infinite if the score cannot go beyond the limit anyway."""
    if len(sides) > 1:
        return comparison.low, comparison.high
    least, greatest = sides[0][0].limits
    low = -math.inf if least is not None and comparison.low <= least else comparison.low
    high = math.inf if greatest is not None and comparison.high >= greatest else comparison.high
    return low, high


def _touch(limit: float) -> float:
    """Return the distance from a limit within which a number touches it."""
    return 1e-9 * max(1.0, abs(limit))


def tail(value: float, interval: tuple[float, float], limit: float) -> float:
    """Return the one-sided p that the truth is not above a limit, from a 95 % interval.

    Each half of the interval is treated as normal: p is 2.5 % at the lower end and 97.5 % at the
    upper end. If a half has zero width, p is 0 or 1.
    """
    half = value - interval[0] if limit < value else interval[1] - value
    if half <= 0 or math.isinf(limit):
        return 0.0 if limit < value else 1.0
    return NormalDist().cdf((limit - value) / half * Z95)


def difference_interval(
    sides: Sequence[Sequence[Term]],
) -> tuple[float, float] | None:
    """Return the interval of the mean of one side, or of its difference from the other side.

    A score on both sides counts with both weights. None if a score has no interval.
    """
    weights: dict[Term, float] = {}
    for side, sign in zip(sides, (1, -1), strict=False):
        for term in side:
            weights[term] = weights.get(term, 0.0) + sign / len(side)
    below = above = centre = 0.0
    for term, weight in weights.items():
        if term.ci95 is None:
            return None
        ends = sorted(weight * end for end in term.ci95)
        centre += weight * term.value
        below += (weight * term.value - ends[0]) ** 2
        above += (ends[1] - weight * term.value) ** 2
    return centre - math.sqrt(below), centre + math.sqrt(above)
