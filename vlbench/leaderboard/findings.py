"""Findings by models: the verdict of each claim on each model, made from boards anew.

A claim that ranges over models has a verdict on each; one about models that it names has one
verdict, which stands beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.boards import Board, board_digest
from vlbench.catalog.catalog import Catalog
from vlbench.catalog.claims import Claim, ClaimsSpec
from vlbench.catalog.listed_capabilities import needs_of
from vlbench.errors import SpecError
from vlbench.files import MOST_BOARD, read_text
from vlbench.leaderboard.claims import (
    CONTRADICTED,
    MISSING,
    SUPPORTED,
    UNDECIDED,
    Evidence,
    Finding,
    Judgement,
    judge,
    read_boards,
    task_file,
    tasks_of,
)
from vlbench.leaderboard.kept import kept
from vlbench.leaderboard.ranging import RangeJudgement, estimate, judge_range, weakest
from vlbench.leaderboard.texts import lead, number, probability
from vlbench.plain import read

NOT_RUN = "not run"

# What stands below a table.
NOTE = (
    "Each cell: the verdict, Holm's rule over the models of a finding, and the weakest comparison "
    "with its own 95 % interval. Detectable: found in each of these models with a power of 80 %. "
    "Planted: how often it is found in one model that knows all items, or half of them, and how "
    "often a verdict is given on a model that knows nothing."
)


class Cell(NamedTuple):
    """The verdict on a model, and its weakest comparison; or why there is none.

    `value` is a difference, or a single score; `p_for` and `p_against` are corrected. `place` is
    the task and the `comparable` of its first row.
    """

    verdict: str
    text: str
    value: float | None = None
    interval: Sequence[float] | None = None
    unit: str = ""
    how: str = ""
    p_for: float | None = None
    p_against: float | None = None
    place: Sequence[str] = ("", "")


class Rates(NamedTuple):
    """How often each verdict was given on planted models: that know all, half, or nothing.

    What was planted are features, which the probe read, or the items of a row of its task.
    `versions` are those of the tasks.
    """

    versions: Mapping[str, int]
    planted: str
    seeds: int
    knows: Mapping[str, float]
    half: Mapping[str, float]
    blind: Mapping[str, float]

    @property
    def text(self) -> str:
        """The rates in words."""
        full, half = (100 * one.get(SUPPORTED, 0.0) for one in (self.knows, self.half))
        called = 100 * (1 - self.blind.get(UNDECIDED, 0.0))
        return (
            f"planted {self.planted}: {full:.0f} % found, {half:.0f} % of half, "
            f"{called:.1f} % of nothing ({self.seeds} draws)"
        )


class RatesFile(NamedTuple):
    """What benchmarks/error_rates.py wrote: with which version, when, and the rates by finding."""

    vlbench: str
    made: str
    rates: Mapping[str, Rates]


RATES = Path("tasks") / "claims" / "error_rates.json"


def read_rates(source: Path) -> Mapping[str, Rates]:
    """Return the error rates that a source has, by the names of findings; none without a file.

    Raises SpecError for a malformed one.
    """
    file = source / RATES
    if not file.is_file():
        return {}
    try:
        found: RatesFile = read(RatesFile, json.loads(read_text(file, MOST_BOARD)))
    except (OSError, ValueError, RecursionError, SpecError) as error:
        raise SpecError(f"{file}: {error}; run benchmarks/error_rates.py") from error
    return found.rates


class Row(NamedTuple):
    """A claim on its tasks: what its models add up to, a cell for each model, and error rates.

    The cell of a claim about models that it names stands under no model's name but "".
    """

    source: ClaimsSpec
    claim: Claim
    tally: Sequence[str]
    cells: Mapping[str, Cell]
    rates: Rates | None = None

    @property
    def is_judged(self) -> bool:
        """Whether there is a verdict at all."""
        return any(cell.verdict != NOT_RUN for cell in self.cells.values())

    @property
    def name(self) -> str:
        """The claim, where it stands in its paper, and its tasks."""
        return finding_name(self.claim)


def finding_name(claim: Claim) -> str:
    """Return a claim's sentence, where it stands in its paper, and its tasks."""
    place = ", ".join(filter(None, [claim.where, *claim.tasks]))
    return f"{claim.text} [{place}]" if place else claim.text


def read_findings(output: Path, catalog: Catalog, claims: Mapping[str, ClaimsSpec]) -> list[Row]:
    """Return all findings, in the order of their files.

    A board is read where something has changed since its findings were judged last, on it or in
    what else they depend on.
    """
    boards: dict[str, Board | None] = {}
    evidence = Evidence(boards, catalog, output)

    def make(claim: Claim) -> bytes:
        absent = [catalog.tasks[name] for name in boards_of(claim, catalog) if name not in boards]
        boards.update(read_boards(output, absent))
        return json.dumps(_judged(claim, evidence)).encode()

    rows = [
        _rebuilt(spec, claim, kept(_parts(claim, evidence), partial(make, claim)))
        for spec in claims.values()
        for claim in spec.claims
    ]
    rates = {source: read_rates(source) for source in {spec.source for spec in claims.values()}}
    return [_with_rates(row, rates[row.source.source], catalog) for row in rows]


def _with_rates(row: Row, rates: Mapping[str, Rates], catalog: Catalog) -> Row:
    """Return a finding with its error rates, where its tasks still have the same versions."""
    known = rates.get(row.name)
    versions = {name: catalog.tasks[name].version for name in row.claim.tasks}
    if known is None or known.versions != versions:
        return row
    return row._replace(rates=known, tally=[*row.tally, known.text])


def boards_of(claim: Claim, catalog: Catalog) -> list[str]:
    """Return the tasks and groups whose boards a claim may read."""
    names = [name for side in claim.sides for name in [*side.tasks, *tasks_of(side, catalog)]]
    return list(dict.fromkeys(names))


def _parts(claim: Claim, evidence: Evidence) -> list[Any]:
    """Return what a finding depends on, besides the code and the models that claims name."""
    abilities = {name: sorted(own) for name, own in evidence.abilities.items()}
    parts: list[Any] = ["findings", repr(claim), abilities if claim.range else {}]
    for name in boards_of(claim, evidence.catalog):
        spec = evidence.catalog.tasks[name]
        file = task_file(evidence.output, spec)
        state = board_digest(file)
        parts.append([name, spec.version, [*spec.group], needs_of(spec) or "", state])
    return parts


def _judged(claim: Claim, evidence: Evidence) -> tuple[Sequence[str], Mapping[str, Cell]]:
    """Return what the models of a claim add up to, and their cells."""
    if claim.range is None:
        return [], {"": _cell(judge(claim, evidence), evidence)}
    judged = judge_range(claim, evidence)
    cells = {model: _cell(one, evidence) for model, one in judged.by_model.items()}
    return tally(judged), cells


def _rebuilt(spec: ClaimsSpec, claim: Claim, content: bytes) -> Row:
    """Return a finding from JSON, in which tuples are lists."""
    told, cells = json.loads(content)
    return Row(spec, claim, told, {model: Cell(*cell) for model, cell in cells.items()})


def _cell(judgement: Judgement, evidence: Evidence) -> Cell:
    """Return the cell of a verdict."""
    claim = judgement.claim
    if judgement.verdict == MISSING:
        lacks = dict.fromkeys(
            f"{lack.model} on {lack.task}: {lack.why}" for lack in judgement.lacks
        )
        return Cell(NOT_RUN, "; ".join(lacks) or f"needs {claim.needs}")
    first = claim.sides[0]
    task = tasks_of(first, evidence.catalog)[0]
    row = evidence.publishable[task][first.models[0]]
    finding = weakest(judgement)
    return Cell(
        verdict=judgement.verdict,
        text=told(finding),
        value=estimate(finding),
        interval=finding.interval,
        unit=finding.unit,
        how=finding.how if len(finding.values) > 1 else "",
        p_for=judgement.p_for,
        p_against=judgement.p_against,
        place=(task, row.comparable),
    )


def told(finding: Finding) -> str:
    """Return a difference, or the score of a single side, with its 95 % interval."""
    show = number if len(finding.values) == 1 else lead
    value = show(estimate(finding), finding.unit)
    if finding.interval is None:
        return f"{value}, without an interval"
    ends = (show(end, finding.unit) for end in finding.interval)
    low, high = (end.removesuffix(" points").removesuffix(" %") for end in ends)
    return f"{value} ({low} to {high})"


def tally(judged: RangeJudgement) -> list[str]:
    """Return how many models have each verdict, what would be detected, and how they differ."""
    counts = {NOT_RUN if v == MISSING else v: n for v, n in judged.counts.items() if n}
    lines = [", ".join(f"{n} {verdict}" for verdict, n in counts.items()) or "no such model"]
    if judged.detectable:
        unit = weakest(next(iter(judged.tested.values()))).unit
        low, high = (lead(size, unit).removeprefix("+") for size in judged.detectable)
        least = "" if low == high else f"{low.removesuffix(' points')} to "
        lines.append(f"detectable: {least}{high}")
    if judged.heterogeneity:
        q, freedom, p, i2 = judged.heterogeneity
        lines.append(
            f"models differ by Q({freedom}) {q:.1f}, {probability(p)}, I2 {100 * i2:.0f} %"
        )
    return lines


def columns(rows: Sequence[Row]) -> list[str]:
    """Return the models that some finding was run of, by name."""
    run = {model for row in rows for model, cell in row.cells.items() if cell.verdict != NOT_RUN}
    return sorted(run - {""})


def cells(rows: Sequence[Row]) -> list[list[str]]:
    """Return the head and the rows of a table of findings by models; empty is out of range."""
    models = columns(rows)
    table = [["finding", "verdict", *models]]
    for row in rows:
        named = row.cells.get("")
        verdict = [_text(named)] if named else [*row.tally]
        table.append([row.name, "; ".join(verdict), *(_text(row.cells.get(m)) for m in models)])
    return table


def by_model(row: Row) -> Iterator[str]:
    """Yield a finding, what its models add up to, and a line for each model it was run of."""
    yield row.name
    yield from (f"  {line}" for line in row.tally)
    run = {model: cell for model, cell in row.cells.items() if cell.verdict != NOT_RUN}
    width = max(map(len, run), default=0)
    for model, cell in run.items():
        name = f"{model:<{width}}  " if model else ""
        yield f"  {name}{cell.verdict:<{len(CONTRADICTED)}}  {cell.text}"


def _text(cell: Cell | None) -> str:
    """Return what stands in a cell; a model that was not run has its reason in CSV alone."""
    if cell is None:
        return ""
    return cell.verdict if cell.verdict == NOT_RUN else f"{cell.verdict} {cell.text}"


COLUMNS = (
    *("source", "paper", "claim", "where", "task", "model", "verdict", "value", "ci95_low"),
    *("ci95_high", "unit", "p_for", "p_against", "compared", "why_not_run"),
    *("planted", "planted_draws", "planted_found", "planted_half_found", "planted_nothing_called"),
)


def lines(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield what stands in the columns of each cell, for CSV."""
    for row in rows:
        about: dict[str, Any] = {
            "source": row.source.name,
            "paper": row.source.paper,
            "claim": row.claim.text,
            "where": row.claim.where,
            "task": " ".join(row.claim.tasks),
        }
        if row.rates:
            about |= {
                "planted": row.rates.planted,
                "planted_draws": row.rates.seeds,
                "planted_found": row.rates.knows.get(SUPPORTED, 0.0),
                "planted_half_found": row.rates.half.get(SUPPORTED, 0.0),
                "planted_nothing_called": 1 - row.rates.blind.get(UNDECIDED, 0.0),
            }
        for model, cell in row.cells.items():
            yield about | {"model": model, "verdict": cell.verdict} | _numbers(cell)


def _numbers(cell: Cell) -> dict[str, Any]:
    if cell.verdict == NOT_RUN:
        return {"why_not_run": cell.text}
    low, high = cell.interval or (None, None)
    return {
        "value": cell.value,
        "ci95_low": low,
        "ci95_high": high,
        "unit": cell.unit,
        "p_for": cell.p_for,
        "p_against": cell.p_against,
        "compared": cell.how,
    }
