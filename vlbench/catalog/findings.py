"""Findings: a paper's findings, or anybody's hypotheses, as comparisons of scores.

They are listed in `tasks/**/findings/<name>.yaml` of any source:

    paper: "arXiv:2107.12021"   # may be left out; `reference:` values of its tasks are shown, too
    title: What the paper is called                       # may be left out
    question: What it asks?                               # may be left out, and so may these two:
    experiments: [{task: object_label_alignment_coco, models: [bert-base-uncased]}]
    without: [{what: TSM, why: no weights can be loaded, nearest: CLIP}]
    models: {static: [glove-6b-300d, random-vectors]}     # may be left out: names of lists
    findings:
      - finding: Static vectors name more regions than BERT's.
        where: Table 2                                    # may be left out
        task: object_label_alignment_coco
        metric: accuracy
        each: {at: [{objects: 2}, {objects: 3}]}
        greater: [{model: static}, {model: bert-base-uncased}]

A side of a comparison is a score, by `model`, `task`, `metric` and `at`. What a side leaves out is
given for the whole finding; both their `at` are joined. A list (or its name, or a group of tasks)
is the mean over what it lists. `floor: NAME` in a side takes that floor of the score in its place.
`floor: chance` takes its chance; where a score must exceed that, it must exceed its hardest floor,
since floors know nothing of what is asked either. Of two models, both must exceed theirs. Each
finding has one of
- `greater: [A, B]`: A exceeds B, by more than `by` where that is given (it may be negative),
- `ordered: [A, B, C]`: each exceeds the next, the largest first,
- `within: [LOW, HIGH]`: the score lies there,
- `needs: TEXT`: nothing in vlbench can show it, for lack of this.
`each` lists values: it must hold for every one of them, and every combination.

A finding may range over models, each of which is judged by itself:

      - finding: Wrong nouns lower a caption's matching score by more than other wrong words do.
        for_each: {capability: ImageTextScorer, task: [noun_replacement_coco, my_task]}
        metric: score_drop
        greater: [{at: {replaced: nouns}}, {at: {replaced: others}}]

`for_each` has either `capability` (one that models must have, or a list of such) or `model` (a
list, or its name), and may have `task`: it is then a finding of its own on each task. It names no
`model`: a side that names none is of the model in turn, and models that sides name are not ranged
over. Nor are controls, whose rows say that they know nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict

from vlbench.catalog.sources import capability_files, shipped_source
from vlbench.catalog.specs import TaskSpec, read_values
from vlbench.catalog.strict_yaml import Document, load_yaml
from vlbench.errors import SpecError, unknown
from vlbench.results import At

Conditions: TypeAlias = At | list[At]
# Gives file and line of a key of a finding.
Where: TypeAlias = Callable[..., str]
# Names for lists of models.
Lists = Mapping[str, Sequence[str]]
# Stands for the model in turn in the sides of a finding that ranges over models: no model's name.
IN_TURN = "each model"
# The folder that tells findings from tasks.
FOLDER = "findings"
RELATIONS = ("greater", "ordered", "within", "needs")
# What a finding says of all its sides.
SHARED = ("model", "task", "metric", "at")


class SideValues(TypedDict, total=False):
    """What a file says of a side, or of all sides of a finding."""

    model: str | list[str]
    task: str | list[str]
    metric: str
    at: Conditions
    floor: str


class EachValues(TypedDict, total=False):
    """The values that a finding must hold for."""

    model: str | list[str]
    task: list[str]
    at: list[At]


class RangeValues(TypedDict, total=False):
    """The models that a finding ranges over, and the tasks on which it is a finding of its own."""

    capability: str | list[str]
    model: str | list[str]
    task: list[str]


class _Said(TypedDict):
    finding: str


class FindingValues(_Said, total=False):
    """What a file says of a finding."""

    where: str
    model: str | list[str]
    task: str | list[str]
    metric: str
    at: Conditions
    each: EachValues
    for_each: RangeValues
    greater: list[SideValues]
    by: float
    ordered: list[SideValues]
    within: tuple[float, float]
    needs: str


class Experiment(NamedTuple):
    """Rows that repeat a paper: a task, and models whose weights the paper used."""

    task: str
    models: list[str]


class Lacking(NamedTuple):
    """What of a paper nobody can repeat, why, and what comes nearest."""

    what: str
    why: str
    nearest: str


class FileValues(TypedDict, total=False):
    """What a file says."""

    paper: str
    title: str
    question: str
    experiments: list[Experiment]
    without: list[Lacking]
    models: Mapping[str, list[str]]
    findings: list[FindingValues]


@dataclass(frozen=True)
class Side:
    """A score, or the mean of several: every model on every task under every condition."""

    label: str
    models: Sequence[str]
    tasks: Sequence[str]
    metric: str
    at: Sequence[Mapping[str, Any]]
    floor: str = ""


@dataclass(frozen=True)
class Comparison:
    """What must lie from `low` to `high`: the score of one side, or its lead over the other.

    A lead must be above `low`. `case` says which of the values it is that `each` lists.
    """

    case: str
    sides: Sequence[Side]
    low: float
    high: float = math.inf


@dataclass(frozen=True)
class Range:
    """The models that a finding ranges over: those with all these capabilities, or a list."""

    capabilities: Sequence[str] = ()
    models: Sequence[str] = ()


def cases_of(where: Where, each: Mapping[str, Any], lists: Lists) -> list[dict[str, Any]]:
    """Return every combination of the values that `each` lists. Raises SpecError."""
    values: dict[str, Any] = {**each}
    empty = [f"{where('each', key)}: '{key}' is empty" for key in values if not values[key]]
    if empty:
        raise SpecError("\n".join(empty))
    if "model" in values:
        values["model"] = _models(values["model"], lists)
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def comparisons_of(
    where: Where, relation: str, values: Mapping[str, Any], case: Mapping[str, Any], lists: Lists
) -> list[Comparison]:
    """Return the comparisons of one case of a finding. Raises SpecError with `where` of a key."""
    label = _label(case)
    base = _joined({key: values.get(key) for key in SHARED if key in values}, case)
    if relation == "within":
        low, high = values["within"]
        if low > high:
            raise SpecError(f"{where(relation)}: 'within' is [low, high]; {low} is above {high}")
        return [Comparison(label, [_side(where(relation), base, {}, lists)], low, high)]
    given = values[relation]
    if len(given) < 2 or (relation == "greater" and len(given) > 2):
        wanted = "two sides" if relation == "greater" else "two sides or more"
        raise SpecError(f"{where(relation)}: '{relation}' has {wanted}, not {len(given)}")
    sides = [_side(where(relation, i), base, own, lists) for i, own in enumerate(given)]
    return [Comparison(label, list(pair), values.get("by", 0)) for pair in pairwise(sides)]


def _side(where: str, base: Mapping[str, Any], own: Mapping[str, Any], lists: Lists) -> Side:
    whole = _joined(base, own)
    problems = [
        f"{where}: '{key}' is missing, in this side and in the finding"
        for key in ("model", "task", "metric")
        if not whole.get(key)
    ]
    problems += [] if whole["at"] else [f"{where}: 'at' lists no conditions"]
    if problems:
        raise SpecError("\n".join(problems))
    label = _label(own) or _label({"model": whole["model"]})
    models, tasks = _models(whole["model"], lists), _list(whole["task"])
    return Side(label, models, tasks, whole["metric"], whole["at"], whole.get("floor", ""))


def _joined(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of both, the own ones first; conditions are those of both."""
    both = product(_list(base.get("at", {})), _list(own.get("at", {})))
    return {**base, **own, "at": [{**a, **b} for a, b in both]}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _models(value: Any, lists: Lists) -> list[str]:
    """Return the models that a name, or a list of them, stands for."""
    return [model for name in _list(value) for model in lists.get(name, [name])]


def _label(own: Mapping[str, Any]) -> str:
    """Return what sets a side or a case apart, for a reader."""
    words = [
        ", ".join(f"{k} {v}" for k, v in part.items()) if isinstance(part, dict) else str(part)
        for key in SideValues.__annotations__
        for part in _list(own.get(key, []))
    ]
    return f"{words[0]} to {words[-1]}" if len(words) > 4 else ", ".join(words)


@dataclass(frozen=True)
class Finding:
    """One finding, and the comparisons that would show it; or what vlbench lacks to show it."""

    text: str
    where: str
    place: str
    comparisons: Sequence[Comparison] = ()
    needs: str = ""
    range: Range | None = None

    @property
    def sides(self) -> list[Side]:
        """Every side of every comparison."""
        return [side for comparison in self.comparisons for side in comparison.sides]

    @property
    def tasks(self) -> list[str]:
        """The tasks that it names, each once."""
        return list(dict.fromkeys(name for side in self.sides for name in side.tasks))

    def of(self, model: str) -> Finding:
        """Return what a finding that ranges over models says of one of them."""
        comparisons = [
            replace(one, sides=[_in_turn(side, model) for side in one.sides])
            for one in self.comparisons
        ]
        return replace(self, comparisons=comparisons, range=None)


def _in_turn(side: Side, model: str) -> Side:
    names = [model if name == IN_TURN else name for name in side.models]
    return replace(side, models=names, label=model if side.label == IN_TURN else side.label)


@dataclass(frozen=True)
class FindingsSpec:
    """The findings of one paper, or of one user."""

    name: str
    source: Path
    document: Document
    paper: str = ""
    title: str = ""
    question: str = ""
    experiments: Sequence[Experiment] = ()
    without: Sequence[Lacking] = ()
    findings: Sequence[Finding] = ()

    @property
    def file(self) -> Path:
        """The YAML file."""
        return self.document.file


def load_findings(file: Path, source: Path) -> list[FindingsSpec]:
    """Return the findings of a YAML file. Raises SpecError with what is wrong with each."""
    document = load_yaml(file)
    values, problems = read_values(FileValues, document, _without_x(document.values))
    lists, listed = values.pop("models", {}), values.pop("findings", [])
    if not listed:
        problems.append(f"{file}: 'findings' is missing or empty; list them")
    findings: list[Finding] = []
    if not problems:
        problems += [
            f"{document.where('models', name)}: '{name}' is empty; list its models"
            for name, models in lists.items()
            if not models
        ]
        for i, entry in enumerate(listed):
            where = partial(document.where, "findings", i)
            try:
                findings += _findings(where, entry, lists)
                problems += _capability_problems(where, entry, source)
            except SpecError as error:
                problems.append(str(error))
    if problems:
        raise SpecError("\n".join(problems))
    return [FindingsSpec(file.stem, source, document, findings=findings, **values)]


def task_problems(spec: FindingsSpec, tasks: Mapping[str, TaskSpec]) -> list[str]:
    """Return each task of a finding or an experiment that no source has."""
    named = {(finding.place, name): None for finding in spec.findings for name in finding.tasks}
    where = spec.document.where("experiments")
    named |= {(where, experiment.task): None for experiment in spec.experiments}
    return [f"{place}: {unknown('task', t, tasks)}" for place, t in named if t not in tasks]


def _without_x(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_x(v) for k, v in value.items() if not str(k).startswith("x-")}
    return [_without_x(v) for v in value] if isinstance(value, list) else value


def _findings(where: Where, values: FindingValues, lists: Lists) -> list[Finding]:
    """Return the finding of an entry; one for each task that it ranges over."""
    problems = []
    relations = [name for name in RELATIONS if name in values]
    if len(relations) != 1:
        wanted = f"{', '.join(RELATIONS[:-1])} and {RELATIONS[-1]}"
        problems.append(
            f"{where()}: a finding must have exactly one of {wanted}; this finding has "
            f"{len(relations)}"
        )
    if "by" in values and "greater" not in values:
        problems.append(f"{where('by')}: 'by' belongs to 'greater'")
    given = values.get("for_each", {})
    problems += _range_problems(where, values) if "for_each" in values else []
    if problems:
        raise SpecError("\n".join(problems))
    about = (values["finding"], values.get("where", ""), where())
    if "needs" in values:
        return [Finding(*about, needs=values["needs"])]
    ranged = None
    if given:
        ranged = Range(_list(given.get("capability", [])), _models(given.get("model", []), lists))
    own: dict[str, Any] = {**values, **({"model": IN_TURN} if ranged else {})}
    findings = []
    for more in [{"task": task} for task in given["task"]] if "task" in given else [{}]:
        comparisons = [
            comparison
            for case in cases_of(where, values.get("each", {}), lists)
            for comparison in comparisons_of(where, relations[0], own | more, case, lists)
        ]
        findings.append(Finding(*about, comparisons, range=ranged))
    if ranged and not any(IN_TURN in side.models for side in findings[0].sides):
        raise SpecError(
            f"{where('for_each')}: every side names a model; leave out 'model' in one side"
        )
    return findings


def _capability_problems(where: Where, values: FindingValues, source: Path) -> list[str]:
    """Return each capability that neither vlbench nor a source has."""
    files = [*capability_files(shipped_source()).values(), *capability_files(source).values()]
    known = [name for own in files for name in own]
    wanted = _list(values.get("for_each", {}).get("capability", []))
    place = where("for_each", "capability")
    return [f"{place}: {unknown('capability', one, known)}" for one in wanted if one not in known]


def _range_problems(where: Where, values: FindingValues) -> Iterator[str]:
    given = values["for_each"]
    if ("capability" in given) == ("model" in given):
        yield f"{where('for_each')}: 'for_each' must have either capability or model"
    if "model" in values:
        yield f"{where('model')}: 'for_each' gives the models; only a side may name another model"
    if "needs" in values:
        yield f"{where('for_each')}: 'for_each' is only for a comparison"
    for key in ("capability", "model", "task"):
        if given.get(key) == []:
            yield f"{where('for_each', key)}: '{key}' is empty"
