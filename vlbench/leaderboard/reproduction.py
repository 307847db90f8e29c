"""A paper's numbers and findings beside what boards hold, as tables."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from rich.table import Table

from vlbench.catalog.catalog import Catalog
from vlbench.catalog.claims import ClaimsSpec
from vlbench.catalog.specs import TaskSpec
from vlbench.errors import printed, spaced, unknown
from vlbench.leaderboard.claims import (
    CONTRADICTED,
    UNDECIDED,
    Boards,
    Finding,
    Judgement,
    Lack,
    counted_row,
    tasks_of,
)
from vlbench.leaderboard.findings import tally, told
from vlbench.leaderboard.ranging import RangeJudgement, weakest
from vlbench.leaderboard.rows import Published, published
from vlbench.leaderboard.texts import lead, number, plain_table, score_name
from vlbench.results import Score, matching

ROOT = "$VLBENCH_DATA/"

# A claim about some models, or one that ranges over them, with what was found.
Judged: TypeAlias = Judgement | RangeJudgement


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


# As many comparisons of a claim, or rows that it lacks, are spelled out.
SHOWN = 3


class Reference(NamedTuple):
    """A published value, and our score of it or the row or score that is missing."""

    spec: TaskSpec
    given: Mapping[str, Any]
    ours: Score | Lack


def find_paper(claims: Mapping[str, ClaimsSpec], name: str) -> ClaimsSpec:
    """Return the claims of a paper by its short name or its id. Raises UnknownNameError."""
    by_id = {spec.paper: spec for spec in claims.values() if spec.paper}
    claim = claims.get(name) or by_id.get(name)
    if claim is None:
        raise unknown("paper", name, [*claims, *by_id])
    return claim


def tasks_of_paper(paper: ClaimsSpec, catalog: Catalog) -> list[TaskSpec]:
    """Return the tasks whose published values are the paper's, and those that its claims name."""
    cited = [spec.name for spec in catalog.tasks.values() if spec.reference and _is_of(spec, paper)]
    claimed = [
        name for claim in paper.claims for side in claim.sides for name in tasks_of(side, catalog)
    ]
    return [catalog.tasks[name] for name in dict.fromkeys([*cited, *claimed])]


def summary(
    paper: ClaimsSpec, references: Sequence[Reference], judgements: Sequence[Judged]
) -> list[str]:
    """Return what a paper is, and how many of its numbers and claims have which fate."""
    title = paper.title or paper.name
    ranging = [one for one in judgements if isinstance(one, RangeJudgement)]
    verdicts = Counter(one.verdict for one in judgements if isinstance(one, Judgement))
    counts = ", ".join(f"{n} {verdict}" for verdict, n in sorted(verdicts.items()))
    lines = [f"{title} ({paper.paper})" if paper.paper else title]
    if references:
        measured = sum(isinstance(one.ours, Score) for one in references)
        lines.append(f"published values: {len(references)}, {measured} of them measured")
    if verdicts:
        lines.append(f"claims about its models: {verdicts.total()}, {counts}")
    if ranging:
        judged = sum(bool(one.tested) for one in ranging)
        lines.append(f"claims that range over models: {len(ranging)}, {judged} of them judged")
    return [printed(line) for line in lines]


def references_of(paper: ClaimsSpec, specs: Sequence[TaskSpec], boards: Boards) -> list[Reference]:
    """Return the published values of a paper's tasks beside ours."""
    return [
        Reference(spec, given, _ours(spec, given, boards))
        for spec in specs
        if _is_of(spec, paper)
        for given in spec.reference
    ]


def reference_tables(references: Sequence[Reference]) -> list[Table]:
    """Return a table for each task: published values, ours, and the difference."""
    columns = ["model", "score", "where", "published", "ours", "difference"]
    tasks = dict.fromkeys(reference.spec.name for reference in references)
    return [
        plain_table(columns, [_cells(r) for r in references if r.spec.name == task], title=task)
        for task in tasks
    ]


def claims_table(judgements: Sequence[Judged]) -> Table:
    """Return the claims with their verdicts, and what each verdict rests on."""
    rows = [
        ["by model", "\n".join(_range_lines(one))]
        if isinstance(one, RangeJudgement)
        else [one.verdict, "\n".join(_lines(one))]
        for one in judgements
    ]
    return plain_table(["verdict", "claim"], rows)


def _name(given: Mapping[str, Any]) -> str:
    return score_name(given["metric"], given.get("at", {}))


def _is_of(spec: TaskSpec, paper: ClaimsSpec) -> bool:
    """Return whether a task is of a paper: tasks add the section to its id."""
    return bool(paper.paper) and f"{spec.paper},".startswith(f"{paper.paper},")


def _ours(spec: TaskSpec, given: Mapping[str, Any], boards: Boards) -> Score | Lack:
    row = counted_row(boards[spec.name], spec, given["model"])
    if isinstance(row, Lack):
        return row
    score = matching(row.scores, given)
    return score[0] if score else Lack(row.model, spec.name, f"no score {_name(given)}")


def _cells(reference: Reference) -> list[str]:
    spec, given, ours = reference
    name = [given["model"], spaced(_name(given)), given["where"]]
    if isinstance(ours, Lack):
        return [*name, number(given["value"]), "missing", ""]
    paper, difference = _beside(published(spec, given["model"], ours), ours.unit)
    return [*name, paper, number(ours.value, ours.unit), difference]


def _beside(paper: Published | None, unit: str) -> list[str]:
    """Return a published value, and how far ours lies from it, as two cells."""
    if paper is None:
        return ["-", "-"]
    errors = "" if paper.in_stderr is None else f" ({paper.in_stderr:+.1f} standard errors)"
    return [number(paper.value, unit), f"{lead(paper.difference, unit)}{errors}"]


def _lines(judgement: Judgement) -> list[str]:
    """Return the sentence of a claim and what its verdict rests on."""
    claim = judgement.claim
    first = f"{claim.text} [{claim.where}]" if claim.where else claim.text
    if claim.needs:
        return [first, f"needs {claim.needs}"]
    lacking: dict[str, list[str]] = {}
    for lack in judgement.lacks:
        lacking.setdefault(f"on {lack.task}: {lack.why}", []).append(lack.model)
    lacks = [f"{_few(models)} {where}" for where, models in lacking.items()]
    order = {CONTRADICTED: 0, UNDECIDED: 1}
    findings = sorted(judgement.findings, key=lambda finding: order.get(finding.verdict, 2))
    shown = lacks or [_told(finding, several=len(findings) > 1) for finding in findings]
    more = [f"and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
    return [first, *shown[:SHOWN], *more]


def _range_lines(judged: RangeJudgement) -> list[str]:
    """Return the sentence of a claim, what its models add up to, and the verdict on each."""
    claim = judged.claim
    place = ", ".join(filter(None, [claim.where, *claim.tasks]))
    models = [
        f"{model}: {one.verdict}, {told(weakest(one))}" for model, one in judged.tested.items()
    ]
    return [f"{claim.text} [{place}]", *tally(judged), *models]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def _told(finding: Finding, *, several: bool) -> str:
    """Return a comparison in words and numbers."""
    comparison, unit = finding.comparison, finding.unit
    values = [number(value, unit) for value in finding.values]
    sides = [f"{s.label} {v}" for s, v in zip(comparison.sides, values, strict=True)]
    verdict = f"{finding.verdict}: " if several else ""
    case = f"{comparison.case}: " if comparison.case else ""
    text = f"{verdict}{case}{', '.join(sides)}"
    show = number if len(sides) == 1 else lead
    if len(sides) > 1:
        text += f"; difference {lead(finding.values[0] - finding.values[1], unit)}"
    if finding.interval is None:
        return f"{text}; a score has no interval"
    low, high = (show(end, unit) for end in finding.interval)
    low = low.removesuffix(" points").removesuffix(" %")
    return f"{text}, 95 % {low} to {high}{f', {finding.how}' if len(sides) > 1 else ''}"
