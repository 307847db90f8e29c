"""A paper's numbers and findings beside the results on boards, for every format."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vlbench.catalog.catalog import Catalog
from vlbench.catalog.findings import Finding, FindingsSpec
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import counted, printed, spaced, unknown
from vlbench.report.judging import (
    MISSING,
    Boards,
    Evidence,
    Judgement,
    Lack,
    counted_row,
    read_boards,
    tasks_of,
)
from vlbench.report.ranging import estimate, verdicts, weakest
from vlbench.report.rows import compare, score_of
from vlbench.report.texts import Grid, lead, number, score_name
from vlbench.results import Score

COLUMNS = (
    *("paper", "finding", "where", "task", "model", "score", "published", "verdict", "value"),
    *("ci95_low", "ci95_high", "unit", "p_for", "p_against", "compared", "why_not_measured"),
)
# The columns of the tables of published values and of findings.
VALUES = ("task", "model", "score", "where", "published", "ours", "difference")
VERDICTS = ("finding", "model", "verdict", "by")
# Printed below the tables.
NOTE = (
    "A finding has the verdict of its weakest comparison, by its 95 % interval; over several "
    "models, by Holm's rule. Drawings and controls are not evidence."
)


class Reference(NamedTuple):
    """A published value, its source, and our score of it, or what is missing."""

    spec: TaskSpec
    given: Mapping[str, Any]
    source: str
    ours: Score | Lack

    @property
    def key(self) -> Hashable:
        """The identity of the value: two tasks may repeat the same published value."""
        same = (self.given.get(key) for key in ("model", "metric", "floor", "value"))
        return (self.source, *same, frozenset(self.given.get("at", {}).items()))


class Reproduction(NamedTuple):
    """The results on boards for a paper: for each of its numbers, and for each of its findings.

    A finding has a verdict for each model that it ranges over, or a single verdict with the key "".
    """

    paper: FindingsSpec
    references: Sequence[Reference]
    judged: Sequence[tuple[Finding, Mapping[str, Judgement]]]

    @property
    def title(self) -> str:
        """The paper's title and id, or the name of its file."""
        own = self.paper
        return f"{own.title or own.name} ({own.paper})" if own.paper else own.title or own.name

    @property
    def by_source(self) -> dict[str, list[Reference]]:
        """The published values by source, the paper's values first."""
        sources: dict[str, list[Reference]] = {self.paper.paper: []}
        for reference in self.references:
            sources.setdefault(reference.source, []).append(reference)
        return sources


def find_papers(findings: Mapping[str, FindingsSpec], name: str = "") -> list[FindingsSpec]:
    """Return the findings of a paper by its short name or its id, or of all papers.

    Raises UnknownNameError.
    """
    if not name:
        return [*findings.values()]
    by_id = {spec.paper: spec for spec in findings.values() if spec.paper}
    spec = findings.get(name) or by_id.get(name)
    if spec is None:
        raise unknown("paper", name, [*findings, *by_id])
    return [spec]


def reproduce(paper: FindingsSpec, catalog: Catalog, output: Path) -> Reproduction:
    """Return the results of a folder for a paper. Raises SpecError for malformed boards."""
    specs = tasks_of_paper(paper, catalog)
    boards = read_boards(output, specs)
    evidence = Evidence(boards, catalog, output)
    judged = [(finding, verdicts(finding, evidence)) for finding in paper.findings]
    return Reproduction(paper, _references(paper, specs, boards), judged)


def tasks_of_paper(paper: FindingsSpec, catalog: Catalog) -> list[TaskSpec]:
    """Return the tasks of the paper that have published values, and the tasks its findings name.

    The first are the tasks of the paper itself and of its experiments.
    """
    run = {experiment.task for experiment in paper.experiments}
    cited = [
        spec.name
        for spec in catalog.tasks.values()
        if spec.reference and (spec.name in run or _is_of(spec, paper))
    ]
    sides = [side for finding in paper.findings for side in finding.sides]
    names = [name for side in sides for name in [*side.tasks, *tasks_of(side, catalog)]]
    return [catalog.tasks[name] for name in dict.fromkeys([*cited, *names])]


def summary(study: Reproduction) -> list[str]:
    """Return how much of a paper was measured, and one line on what was not."""
    first, *others = study.by_source.values()
    published, values = count_values(first)
    findings = sum(
        any(one.verdict != MISSING for one in by_model.values()) for _, by_model in study.judged
    )
    left = {"published value": published - values, "finding": len(study.judged) - findings}
    absent = " and ".join(counted(count, noun) for noun, count in left.items() if count)
    lines = [printed(study.title)]
    if values or findings:
        both = (counted(values, "published value"), counted(findings, "finding"))
        lines.append(f"measured: {' and '.join(both)}")
    lines += [f"not measured: {absent}"] if absent else []
    return [*lines, *map(summary_of_source, others)]


def summary_of_source(references: Sequence[Reference]) -> str:
    """Return how many of a source's published values were measured."""
    published, values = count_values(references)
    return f"{references[0].source}: {values} of {published} published values measured"


def count_values(references: Iterable[Reference]) -> tuple[int, int]:
    """Return the number of published values, each counted once, and of those measured."""
    ours = {reference.key for reference in references if isinstance(reference.ours, Score)}
    return len({reference.key for reference in references}), len(ours)


class Line(NamedTuple):
    """A published value, or a finding on one model: numbers by column, and the cells of a table.

    It has no cells if it was not measured.
    """

    title: str
    head: Sequence[str]
    cells: Sequence[str]
    numbers: Mapping[str, Any]


def lines(study: Reproduction) -> Iterator[Line]:
    """Yield a line for each published value, and for each finding and model."""
    for reference in study.references:
        is_own = reference.source == study.paper.paper
        title = f"{study.title if is_own else reference.source}: numbers"
        cells = _value_cells(reference) if isinstance(reference.ours, Score) else ()
        yield Line(title, VALUES, cells, _value_numbers(reference))
    for finding, by_model in study.judged:
        about = {"paper": study.paper.paper or study.paper.name, "finding": finding.text}
        about |= {"where": finding.where, "task": " ".join(finding.tasks)}
        title, sentence = f"{study.title}: findings", _sentence(finding)
        for model, judgement in by_model.items():
            numbers, cells = about | {"model": model} | _verdict_numbers(judgement), list[str]()
            if judgement.verdict != MISSING:
                cells = [sentence, model, judgement.verdict, verdict_text(judgement)]
                sentence = ""  # Only the first row of a finding has the sentence.
            yield Line(title, VERDICTS, cells, numbers)
        if not by_model:
            numbers = about | {"why_not_measured": "no model has a row of its task"}
            yield Line(title, VERDICTS, (), numbers)


def grids(study: Reproduction) -> list[Grid]:
    """Return tables of the numbers and findings of a paper that were measured, if any.

    Numbers of each other source have a separate table.
    """
    rows: dict[tuple[str, Sequence[str]], list[Sequence[str]]] = {}
    rows[f"{study.title}: numbers", VALUES] = []
    for line in lines(study):
        rows.setdefault((line.title, line.head), []).extend([line.cells] if line.cells else [])
    return [
        Grid(title, head, cells, "l" * len(head), NOTE)
        for (title, head), cells in rows.items()
        if cells
    ]


def _value_numbers(reference: Reference) -> dict[str, Any]:
    """Return a published value and our score; the `paper` is its source."""
    spec, value, source, ours = reference
    about = {"paper": source, "task": spec.name, "score": name_of(value)}
    about |= {"published": value["value"]} | {key: value[key] for key in ("where", "model")}
    if isinstance(ours, Lack):
        return about | {"why_not_measured": ours.why}
    low, high = ours.ci95 or (None, None)
    interval = {"ci95_low": low, "ci95_high": high}
    return about | {"value": ours.value, **interval, "unit": ours.unit}


def _value_cells(reference: Reference) -> list[str]:
    spec, value, _, ours = reference
    assert isinstance(ours, Score)
    check = compare(value, ours)
    in_errors = "" if check.in_stderr is None else f" ({check.in_stderr:+.1f} standard errors)"
    return [
        *(spec.name, value["model"], spaced(name_of(value)), check.where),
        *(number(check.value, ours.unit), number(ours.value, ours.unit)),
        f"{lead(check.difference, ours.unit)}{in_errors}",
    ]


def _verdict_numbers(judgement: Judgement) -> dict[str, Any]:
    if judgement.verdict == MISSING:
        lacks = dict.fromkeys(f"{one.model} on {one.task}: {one.why}" for one in judgement.lacks)
        return {"why_not_measured": "; ".join(lacks) or f"needs {judgement.finding.needs}"}
    compared = weakest(judgement)
    low, high = compared.interval or (None, None)
    return {
        "verdict": judgement.verdict,
        "value": estimate(compared),
        "ci95_low": low,
        "ci95_high": high,
        "unit": compared.unit,
        "p_for": judgement.p_for,
        "p_against": judgement.p_against,
        "compared": compared.how if len(compared.values) > 1 else "",
    }


def _references(paper: FindingsSpec, specs: Sequence[TaskSpec], boards: Boards) -> list[Reference]:
    """Return the published values of a paper's tasks and experiments beside our scores."""
    run = {experiment.task for experiment in paper.experiments}
    return [
        Reference(spec, value, source_of(value, spec, paper), _ours(spec, value, boards))
        for spec in specs
        if spec.name in run or _is_of(spec, paper)
        for value in spec.reference
    ]


def of_other_tasks(
    papers: Sequence[FindingsSpec], catalog: Catalog, output: Path
) -> dict[str, list[Reference]]:
    """Return the published values of tasks of no paper, by source, such as recorded answers'."""
    names = {spec.name for paper in papers for spec in tasks_of_paper(paper, catalog)}
    specs = [spec for spec in catalog.tasks.values() if spec.reference and spec.name not in names]
    boards, sources = read_boards(output, specs), dict[str, list[Reference]]()
    for spec in specs:
        for value in spec.reference:
            source = value.get("source") or spec.paper
            reference = Reference(spec, value, source, _ours(spec, value, boards))
            sources.setdefault(source, []).append(reference)
    return sources


def source_of(value: Mapping[str, Any], spec: TaskSpec, paper: FindingsSpec) -> str:
    """Return where a value is published: a paper's id, or the source that the value names."""
    return value.get("source") or (paper.paper if _is_of(spec, paper) else spec.paper)


def _is_of(spec: TaskSpec, paper: FindingsSpec) -> bool:
    """Return whether a task is of a paper; the task's `paper` may add a section to the id."""
    return bool(paper.paper) and f"{spec.paper},".startswith(f"{paper.paper},")


def _ours(spec: TaskSpec, value: Mapping[str, Any], boards: Boards) -> Score | Lack:
    row = counted_row(boards[spec.name], spec, value["model"])
    if isinstance(row, Lack):
        return row
    return score_of(value, row.scores) or Lack(row.model, spec.name, f"no score {name_of(value)}")


def name_of(value: Mapping[str, Any]) -> str:
    """Return the name of the score of a published value, or of the floor of a score."""
    name = score_name(value["metric"], value.get("at", {}))
    return f"{name}: {value['floor']}" if "floor" in value else name


def _sentence(finding: Finding) -> str:
    """Return a finding's sentence, its place in the paper, and its tasks."""
    place = ", ".join(filter(None, [finding.where, *finding.tasks]))
    return f"{finding.text} [{place}]" if place else finding.text


def verdict_text(judgement: Judgement) -> str:
    """Return the weakest comparison of a verdict in words and numbers."""
    compared = weakest(judgement)
    comparison, unit = compared.comparison, compared.unit
    values = [number(value, unit) for value in compared.values]
    sides = [f"{s.label} {v}".strip() for s, v in zip(comparison.sides, values, strict=True)]
    count = len(judgement.compared)
    case = f"weakest of {count}: " if count > 1 else ""
    case += f"{comparison.case}: " if comparison.case else ""
    text = f"{case}{', '.join(sides)}"
    show = number if len(sides) == 1 else lead
    if len(sides) > 1:
        text += f"; difference {lead(estimate(compared), unit)}"
    if compared.interval is None:
        return f"{text}; a score has no interval"
    low, high = (show(end, unit) for end in compared.interval)
    low = low.removesuffix(" points").removesuffix(" %")
    return f"{text}, 95 % {low} to {high}{f', {compared.how}' if len(sides) > 1 else ''}"
