"""A paper's numbers and findings beside what boards hold, for every format."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rich.table import Table

from vlbench.catalog.catalog import Catalog
from vlbench.catalog.findings import Finding, FindingsSpec
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import counted, printed, spaced, unknown
from vlbench.report.judging import (
    CONTRADICTED,
    MISSING,
    SUPPORTED,
    UNDECIDED,
    Boards,
    Evidence,
    Judgement,
    Lack,
    counted_row,
    judge,
    read_boards,
    tasks_of,
)
from vlbench.report.ranging import RangeJudgement, estimate, judge_range, weakest
from vlbench.report.rows import compare, score_of
from vlbench.report.texts import lead, number, plain_table, probability, score_name
from vlbench.results import Score

ROOT = "$VLBENCH_DATA/"

# A finding on more models than this has a row for each verdict in place of one for each model.
MODELS = 50

# A finding about some models, or one that ranges over them, with what was found.
Judged: TypeAlias = Judgement | RangeJudgement


class Reference(NamedTuple):
    """A published value, its source, and our score of it or the row or score that is missing."""

    spec: TaskSpec
    given: Mapping[str, Any]
    source: str
    ours: Score | Lack

    @property
    def key(self) -> Hashable:
        """What makes it one value: two tasks may repeat the same one."""
        same = (self.given.get(key) for key in ("model", "metric", "floor", "value"))
        return (self.source, *same, frozenset(self.given.get("at", {}).items()))


class Grid(NamedTuple):
    """A table of texts below its title; `head` names its columns."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


class Reproduction(NamedTuple):
    """What boards hold of a paper: of each of its numbers, and of each of its findings."""

    paper: FindingsSpec
    references: Sequence[Reference]
    judged: Sequence[Judged]

    @property
    def title(self) -> str:
        """The paper's title and id, or the name of its file."""
        own = self.paper
        return f"{own.title or own.name} ({own.paper})" if own.paper else own.title or own.name

    @property
    def by_source(self) -> dict[str, list[Reference]]:
        """The published values by their source, the paper's own first."""
        sources: dict[str, list[Reference]] = {self.paper.paper: []}
        for one in self.references:
            sources.setdefault(one.source, []).append(one)
        return sources

    @property
    def lacks(self) -> list[Lack]:
        """What is missing; of the models that a finding ranges over, nobody need run all."""
        ours = [one.ours for one in self.references if isinstance(one.ours, Lack)]
        named = [one for one in self.judged if isinstance(one, Judgement)]
        return ours + [lack for one in named for lack in one.lacks]


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
    """Return what the boards of a folder hold of a paper. Raises SpecError for malformed ones."""
    specs = tasks_of_paper(paper, catalog)
    boards = read_boards(output, specs)
    evidence = Evidence(boards, catalog, output)
    judged = [(judge_range if one.range else judge)(one, evidence) for one in paper.findings]
    return Reproduction(paper, _references(paper, specs, boards), judged)


def tasks_of_paper(paper: FindingsSpec, catalog: Catalog) -> list[TaskSpec]:
    """Return the tasks with published values of the paper's, and those that its findings name.

    The first are those of the paper, and those of its experiments.
    """
    run = {one.task for one in paper.experiments}
    cited = [
        spec.name
        for spec in catalog.tasks.values()
        if spec.reference and (spec.name in run or _is_of(spec, paper))
    ]
    sides = [side for finding in paper.findings for side in finding.sides]
    named = [name for side in sides for name in [*side.tasks, *tasks_of(side, catalog)]]
    return [catalog.tasks[name] for name in dict.fromkeys([*cited, *named])]


def summary(found: Reproduction) -> list[str]:
    """Return how much of a paper was measured, and one line of what was not."""
    own, *others = found.by_source.values()
    published, values = count_values(own)
    findings = sum(bool(_verdicts(one)) for one in found.judged)
    left = {"published value": published - values, "finding": len(found.judged) - findings}
    absent = " and ".join(counted(count, noun) for noun, count in left.items() if count)
    lines = [printed(found.title)]
    if values or findings:
        both = (counted(values, "published value"), counted(findings, "finding"))
        lines.append(f"measured: {' and '.join(both)}")
    lines += [f"not measured: {absent}"] if absent else []
    for references in others:
        published, values = count_values(references)
        lines.append(f"{references[0].source}: {values} of {published} published values measured")
    return lines


def count_values(references: Iterable[Reference]) -> tuple[int, int]:
    """Return how many values are published, each counted once, and how many are measured."""
    ours = {one.key for one in references if isinstance(one.ours, Score)}
    return len({one.key for one in references}), len(ours)


def grids(found: Reproduction) -> list[Grid]:
    """Return the numbers and the findings of a paper that were measured, if any.

    Numbers of other sources have a table for each source.
    """
    head = ("task", "model", "score", "where", "published", "ours", "difference")
    verdicts = [row for one in found.judged for row in _finding_rows(one)]
    tables = [
        Grid(
            f"{found.title if source == found.paper.paper else source}: numbers",
            head,
            [_number_cells(one) for one in references if isinstance(one.ours, Score)],
        )
        for source, references in found.by_source.items()
    ]
    tables.append(Grid(f"{found.title}: findings", ("finding", "model", "verdict", "by"), verdicts))
    return [grid for grid in tables if grid.rows]


COLUMNS = (
    *("paper", "finding", "where", "task", "model", "score", "published", "verdict", "value"),
    *("ci95_low", "ci95_high", "unit", "p_for", "p_against", "compared", "why_not_measured"),
)


def lines(found: Reproduction) -> Iterator[dict[str, Any]]:
    """Yield a line of CSV for each published value, and for each finding and model.

    The `paper` of a value is its source.
    """
    paper = {"paper": found.paper.paper or found.paper.name}
    for spec, given, source, ours in found.references:
        about = {"paper": source, "task": spec.name, "score": name_of(given)}
        about |= {"published": given["value"]}
        about |= {key: given[key] for key in ("where", "model")}
        if isinstance(ours, Lack):
            yield about | {"why_not_measured": ours.why}
        else:
            low, high = ours.ci95 or (None, None)
            yield about | {
                "value": ours.value,
                "ci95_low": low,
                "ci95_high": high,
                "unit": ours.unit,
            }
    for judged in found.judged:
        one = judged.finding
        about = {"finding": one.text, "where": one.where, "task": " ".join(one.tasks)}
        by_model = judged.by_model if isinstance(judged, RangeJudgement) else {"": judged}
        for model, judgement in by_model.items():
            yield paper | about | {"model": model} | _judgement_numbers(judgement)
        if not by_model:
            yield paper | about | {"why_not_measured": "no model has a row of its task"}


def _judgement_numbers(judgement: Judgement) -> dict[str, Any]:
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
    """Return the published values of a paper's tasks and experiments beside ours."""
    run = {one.task for one in paper.experiments}
    return [
        Reference(spec, given, source_of(given, spec, paper), _ours(spec, given, boards))
        for spec in specs
        if spec.name in run or _is_of(spec, paper)
        for given in spec.reference
    ]


def source_of(given: Mapping[str, Any], spec: TaskSpec, paper: FindingsSpec) -> str:
    """Return where a value is published: a paper's id, or the source that the value names."""
    return given.get("source") or (paper.paper if _is_of(spec, paper) else spec.paper)


def _is_of(spec: TaskSpec, paper: FindingsSpec) -> bool:
    """Return whether a task is of a paper: tasks add the section to its id."""
    return bool(paper.paper) and f"{spec.paper},".startswith(f"{paper.paper},")


def _ours(spec: TaskSpec, given: Mapping[str, Any], boards: Boards) -> Score | Lack:
    row = counted_row(boards[spec.name], spec, given["model"])
    if isinstance(row, Lack):
        return row
    return score_of(given, row.scores) or Lack(row.model, spec.name, f"no score {name_of(given)}")


def name_of(given: Mapping[str, Any]) -> str:
    """Return what the score of a published value is called, or the floor of a score."""
    name = score_name(given["metric"], given.get("at", {}))
    return f"{name}: {given['floor']}" if "floor" in given else name


def _number_cells(reference: Reference) -> list[str]:
    spec, given, _, ours = reference
    assert isinstance(ours, Score)
    known = compare(given, ours)
    in_errors = "" if known.in_stderr is None else f" ({known.in_stderr:+.1f} standard errors)"
    return [
        *(spec.name, given["model"], spaced(name_of(given)), known.where),
        *(number(known.value, ours.unit), number(ours.value, ours.unit)),
        f"{lead(known.difference, ours.unit)}{in_errors}",
    ]


def _verdicts(judged: Judged) -> dict[str, Judgement]:
    """Return the verdict on each model that has one; under "" that of a finding about several."""
    if isinstance(judged, RangeJudgement):
        return judged.tested
    return {} if judged.verdict == MISSING else {"": judged}


def _finding_rows(judged: Judged) -> Iterator[list[str]]:
    """Yield a row for each model that a finding was judged on, the sentence in the first alone."""
    verdicts = _verdicts(judged)
    adds_up = tally(judged) if isinstance(judged, RangeJudgement) else []
    if len(verdicts) > MODELS:
        adds_up = [*adds_up, "each model: vlbench leaderboard reproduce --format csv"]
        rows = [*_verdict_rows(verdicts)]
    else:
        rows = [[model, one.verdict, told(one)] for model, one in verdicts.items()]
    sentence = "; ".join([_sentence(judged.finding), *adds_up])
    for row in rows:
        yield [sentence, *row]
        sentence = ""


def _verdict_rows(verdicts: Mapping[str, Judgement]) -> Iterator[list[str]]:
    """Yield a row for each verdict: its models, by name where they are few, and their range."""
    for verdict in (SUPPORTED, CONTRADICTED, UNDECIDED):
        found = {model: one for model, one in verdicts.items() if one.verdict == verdict}
        if found:
            names = f"{len(found)} models" if len(found) > MODELS else ", ".join(found)
            yield [names, verdict, _range_told([*found.values()])]


def _range_told(judgements: Sequence[Judgement]) -> str:
    """Return between what the weakest comparisons of models lie; nothing for several units."""
    if len(judgements) == 1:
        return told(judgements[0])
    compared = [weakest(one) for one in judgements]
    unit, differ = compared[0].unit, len(compared[0].values) > 1
    if any(one.unit != unit for one in compared):
        return ""
    values = [estimate(one) for one in compared]
    low, high = ((lead if differ else number)(end(values), unit) for end in (min, max))
    low = low.removesuffix(" points").removesuffix(" %")
    return f"{'difference ' if differ else ''}{low} to {high}"


def _sentence(finding: Finding) -> str:
    """Return a finding's sentence, where it is in its paper, and its tasks."""
    place = ", ".join(filter(None, [finding.where, *finding.tasks]))
    return f"{finding.text} [{place}]" if place else finding.text


def tally(judged: RangeJudgement) -> list[str]:
    """Return how many models have each verdict, what would be detected, and how they differ."""
    counts = [f"{n} {verdict}" for verdict, n in judged.counts.items() if n and verdict != MISSING]
    parts = [", ".join(counts)]
    if judged.detectable:
        unit = weakest(next(iter(judged.tested.values()))).unit
        low, high = (lead(size, unit).removeprefix("+") for size in judged.detectable)
        least = "" if low == high else f"{low.removesuffix(' points')} to "
        parts.append(f"detectable: {least}{high}")
    if judged.heterogeneity:
        q, freedom, p, i2 = judged.heterogeneity
        parts.append(
            f"models differ by Q({freedom}) {q:.1f}, {probability(p)}, I2 {100 * i2:.0f} %"
        )
    return parts


def told(judgement: Judgement) -> str:
    """Return the weakest comparison of a verdict in words and numbers."""
    compared = weakest(judgement)
    comparison, unit = compared.comparison, compared.unit
    values = [number(value, unit) for value in compared.values]
    sides = [f"{s.label} {v}".strip() for s, v in zip(comparison.sides, values, strict=True)]
    several = len(judgement.compared)
    case = f"weakest of {several}: " if several > 1 else ""
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


def to_fetch(lacks: Sequence[Lack], catalog: Catalog, output: Path) -> list[str | Table]:
    """Return tables of the weights and the data that rows lack, and the command that makes them."""
    if not lacks:
        return []
    # A summary may hold a model twice, as `clip-rn50 (text)`.
    models = list(dict.fromkeys(lack.model.partition(" (")[0] for lack in lacks))
    named = [catalog.tasks[task] for task in dict.fromkeys(lack.task for lack in lacks)]
    tasks = [catalog.tasks[name] for spec in named for name in spec.group or [spec.name]]
    helpers = [name for spec in tasks for name in _models_in(spec, catalog)]
    weights = [[name, _weights(name, catalog)] for name in dict.fromkeys([*models, *helpers])]
    shown: list[str | Table] = [plain_table(["weights of", "where they are"], weights)]
    data: dict[str, list[str]] = {}
    for spec in tasks:
        for folder in _folders(spec.data):
            data.setdefault(folder, []).append(spec.name)
    rows = [[folder, ", ".join(dict.fromkeys(names))] for folder, names in data.items()]
    shown += [plain_table(["data in", "of"], rows)] if rows else []
    return [*shown, *_commands(models, named, catalog, output)]


def _commands(
    models: Sequence[str], named: Sequence[TaskSpec], catalog: Catalog, output: Path
) -> Iterator[str]:
    """Yield what to run; a dry run says where absent data come from."""
    known = [name for name in models if name in catalog.models]
    there = [name for name in known if not catalog.models[name].unavailable]
    where = shlex.quote(str(output))
    if there:
        tasks = ",".join(spec.name for spec in named)
        yield "Then run this (with --dry-run it says where absent data come from):"
        yield f"vlbench --model {','.join(there)} --tasks {tasks} --output {where}"
        if any(spec.group for spec in named):
            yield f"vlbench leaderboard build --output {where}"


def _weights(name: str, catalog: Catalog) -> str:
    model = catalog.models.get(name)
    if model is None:
        return "no models.yaml lists this model"
    return f"unavailable: {model.unavailable}" if model.unavailable else model.weights or "not said"


def _models_in(spec: TaskSpec, catalog: Catalog) -> list[str]:
    """Return the models that a task's parameters name, such as a detector."""
    given = [value for value in spec.params.values() if isinstance(value, str)]
    return [value for value in given if value in catalog.models]


def _folders(value: Any) -> Iterator[str]:
    """Yield the folders of $VLBENCH_DATA that a task's data name."""
    if isinstance(value, str) and value.startswith(ROOT):
        yield ROOT + value.removeprefix(ROOT).partition("/")[0]
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(parts, list) or isinstance(value, Mapping):
        for part in parts:
            yield from _folders(part)
