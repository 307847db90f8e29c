"""Findings: a paper's findings, or a user's hypotheses, as comparisons of scores.

They are listed in `tasks/**/findings/<name>.yaml` of any source:

    paper: "arXiv:2107.12021"   # optional; `reference:` values of its tasks are shown, too
    title: Title of the paper                             # optional
    question: What does it ask?                           # optional, and so are these two:
    experiments: [{task: object_label_alignment_coco, models: [bert-base-uncased]}]
    without: [{what: TSM, why: no weights can be loaded, nearest: CLIP}]
    models: {static: [glove-6b-300d, random-vectors]}     # optional: names of lists
    findings:
      - finding: Static vectors name more regions than BERT's.
        where: Table 2                                    # optional
        task: object_label_alignment_coco
        metric: accuracy
        each: {at: [{objects: 2}, {objects: 3}]}
        greater: [{model: static}, {model: bert-base-uncased}]

A side of a comparison is a score, given by `model`, `task`, `metric` and `at`. Keys that a side
leaves out are taken from the finding; the `at` of both are joined. A list (or its name, or a group
of tasks) means the average over its members. `floor: NAME` in a side replaces the score by that
floor of it. `floor: chance` replaces it by chance; a score that must exceed chance must exceed its
hardest floor, since floors ignore the input, too. If two models are compared, both must exceed
their hardest floors.
Each finding has one of
- `greater: [A, B]`: A exceeds B, by more than `by` if given (`by` may be negative),
- `ordered: [A, B, C]`: each exceeds the next, the largest first,
- `within: [LOW, HIGH]`: the score is in this range,
- `needs: TEXT`: vlbench cannot show the finding, because it does not have this.
`each` lists values: the finding must hold for every combination of them.

A finding may range over models, each of which is judged separately:

      - finding: Wrong nouns lower a caption's matching score by more than other wrong words do.
        for_each: {capability: ImageTextScorer, task: [noun_replacement_coco, my_task]}
        metric: score_drop
        greater: [{at: {replaced: nouns}}, {at: {replaced: others}}]

`for_each` has either `capability` (a capability that models must have, or a list of capabilities)
or `model` (a list of models, or its name). With `task`, it makes a separate finding on each task.
The finding itself names no `model`: a side without `model` takes each model in turn. Models that
sides name, and controls, are not ranged over.
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
# Returns file and line of a key of a finding.
Where: TypeAlias = Callable[..., str]
# Names of lists of models.
Lists = Mapping[str, Sequence[str]]
# Stands for the current model in the sides of a finding that ranges over models.
IN_TURN = "each model"
# The folder of findings, which distinguishes them from tasks.
FOLDER = "findings"
RELATIONS = ("greater", "ordered", "within", "needs")
# Keys of a finding that apply to all its sides.
SHARED = ("model", "task", "metric", "at")


class SideValues(TypedDict, total=False):
    """The keys of a side, or of all sides of a finding."""

    model: str | list[str]
    task: str | list[str]
    metric: str
    at: Conditions
    floor: str


class EachValues(TypedDict, total=False):
    """The values for which a finding must hold."""

    model: str | list[str]
    task: list[str]
    at: list[At]


class RangeValues(TypedDict, total=False):
    """The models that a finding ranges over, and the tasks, each of which is a separate finding."""

    capability: str | list[str]
    model: str | list[str]
    task: list[str]


class _Said(TypedDict):
    finding: str


class FindingValues(_Said, total=False):
    """The keys of a finding."""

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
    """A part of a paper that cannot be repeated, the reason, and the nearest alternative."""

    what: str
    why: str
    nearest: str


class FileValues(TypedDict, total=False):
    """The keys of a file."""

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
    """A condition on the score of one side, or on its difference from the other: `low` to `high`.

    A difference must be greater than `low`. `case` names the values of `each`.
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
    entries = values[relation]
    if len(entries) < 2 or (relation == "greater" and len(entries) > 2):
        count = "two sides" if relation == "greater" else "two sides or more"
        raise SpecError(f"{where(relation)}: '{relation}' has {count}, not {len(entries)}")
    sides = [_side(where(relation, i), base, entry, lists) for i, entry in enumerate(entries)]
    return [Comparison(label, list(pair), values.get("by", 0)) for pair in pairwise(sides)]


def _side(where: str, base: Mapping[str, Any], entry: Mapping[str, Any], lists: Lists) -> Side:
    whole = _joined(base, entry)
    problems = [
        f"{where}: '{key}' is missing, in this side and in the finding"
        for key in ("model", "task", "metric")
        if not whole.get(key)
    ]
    problems += [] if whole["at"] else [f"{where}: 'at' lists no conditions"]
    if problems:
        raise SpecError("\n".join(problems))
    label = _label(entry) or _label({"model": whole["model"]})
    models, tasks = _models(whole["model"], lists), _list(whole["task"])
    return Side(label, models, tasks, whole["metric"], whole["at"], whole.get("floor", ""))


def _joined(base: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of both, `entry` overriding `base`; conditions are joined."""
    both = product(_list(base.get("at", {})), _list(entry.get("at", {})))
    return {**base, **entry, "at": [{**a, **b} for a, b in both]}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _models(value: Any, lists: Lists) -> list[str]:
    """Return the models that a name, or a list of names, stands for."""
    return [model for name in _list(value) for model in lists.get(name, [name])]


def _label(values: Mapping[str, Any]) -> str:
    """Return the words that distinguish a side or a case, for a reader."""
    words = [
        ", ".join(f"{k} {v}" for k, v in part.items()) if isinstance(part, dict) else str(part)
        for key in SideValues.__annotations__
        for part in _list(values.get(key, []))
    ]
    return f"{words[0]} to {words[-1]}" if len(words) > 4 else ", ".join(words)


@dataclass(frozen=True)
class Finding:
    """One finding, and the comparisons that would show it, or what vlbench would need for it."""

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
        """The tasks that the finding names, each once."""
        return list(dict.fromkeys(name for side in self.sides for name in side.tasks))

    def of(self, model: str) -> Finding:
        """Return a finding that ranges over models as a finding about one of them."""
        comparisons = [
            replace(comparison, sides=[_in_turn(side, model) for side in comparison.sides])
            for comparison in self.comparisons
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
    """Return the findings of a YAML file. Raises SpecError with the problems of each finding."""
    document = load_yaml(file)
    values, problems = read_values(FileValues, document, _without_x(document.values))
    lists, entries = values.pop("models", {}), values.pop("findings", [])
    if not entries:
        problems.append(f"{file}: 'findings' is missing or empty; list them")
    findings: list[Finding] = []
    if not problems:
        problems += [
            f"{document.where('models', name)}: '{name}' is empty; list its models"
            for name, models in lists.items()
            if not models
        ]
        for i, entry in enumerate(entries):
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
    """Return a problem for each task of a finding or an experiment that no source has."""
    cited = {(finding.place, name): None for finding in spec.findings for name in finding.tasks}
    where = spec.document.where("experiments")
    cited |= {(where, experiment.task): None for experiment in spec.experiments}
    return [f"{place}: {unknown('task', t, tasks)}" for place, t in cited if t not in tasks]


def _without_x(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_x(v) for k, v in value.items() if not str(k).startswith("x-")}
    return [_without_x(v) for v in value] if isinstance(value, list) else value


def _findings(where: Where, values: FindingValues, lists: Lists) -> list[Finding]:
    """Return the finding of an entry, or a finding for each task that it ranges over."""
    problems = []
    relations = [name for name in RELATIONS if name in values]
    if len(relations) != 1:
        choices = f"{', '.join(RELATIONS[:-1])} and {RELATIONS[-1]}"
        problems.append(
            f"{where()}: a finding must have exactly one of {choices}; this finding has "
            f"{len(relations)}"
        )
    if "by" in values and "greater" not in values:
        problems.append(f"{where('by')}: 'by' belongs to 'greater'")
    ranges = values.get("for_each", {})
    problems += _range_problems(where, values) if "for_each" in values else []
    if problems:
        raise SpecError("\n".join(problems))
    about = (values["finding"], values.get("where", ""), where())
    if "needs" in values:
        return [Finding(*about, needs=values["needs"])]
    ranged = None
    if ranges:
        ranged = Range(_list(ranges.get("capability", [])), _models(ranges.get("model", []), lists))
    base: dict[str, Any] = {**values, **({"model": IN_TURN} if ranged else {})}
    findings = []
    for more in [{"task": task} for task in ranges["task"]] if "task" in ranges else [{}]:
        comparisons = [
            comparison
            for case in cases_of(where, values.get("each", {}), lists)
            for comparison in comparisons_of(where, relations[0], base | more, case, lists)
        ]
        findings.append(Finding(*about, comparisons, range=ranged))
    if ranged and not any(IN_TURN in side.models for side in findings[0].sides):
        raise SpecError(
            f"{where('for_each')}: every side names a model; leave out 'model' in one side"
        )
    return findings


def _capability_problems(where: Where, values: FindingValues, source: Path) -> list[str]:
    """Return a problem for each capability that neither vlbench nor a source has."""
    files = [*capability_files(shipped_source()).values(), *capability_files(source).values()]
    names = [name for file in files for name in file]
    cited = _list(values.get("for_each", {}).get("capability", []))
    place = where("for_each", "capability")
    return [f"{place}: {unknown('capability', name, names)}" for name in cited if name not in names]


def _range_problems(where: Where, values: FindingValues) -> Iterator[str]:
    ranges = values["for_each"]
    if ("capability" in ranges) == ("model" in ranges):
        yield f"{where('for_each')}: 'for_each' must have either capability or model"
    if "model" in values:
        yield f"{where('model')}: 'for_each' gives the models; only a side may name another model"
    if "needs" in values:
        yield f"{where('for_each')}: 'for_each' is only for a comparison"
    for key in ("capability", "model", "task"):
        if ranges.get(key) == []:
            yield f"{where('for_each', key)}: '{key}' is empty"
