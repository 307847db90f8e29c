"""Claims: a paper's findings, or anybody's hypotheses, as comparisons of scores.

They stand in `tasks/**/claims/<name>.yaml` of any source:

    paper: "arXiv:2107.12021"   # may be left out; `reference:` values of its tasks are shown, too
    title: What the paper is called                       # may be left out
    models: {static: [glove-6b-300d, random-vectors]}     # may be left out: names of lists
    claims:
      - claim: Static vectors name more regions than BERT's.
        where: Table 2                                    # may be left out
        task: object_label_alignment_coco
        metric: accuracy
        each: {at: [{objects: 2}, {objects: 3}]}
        greater: [{model: static}, {model: bert-base-uncased}]

A side of a comparison is a score, by `model`, `task`, `metric` and `at`. What a side leaves out
stands beside the claim; both their `at` are joined. A list (or its name, or a group of tasks) is
the mean over what it lists. `floor: NAME` in a side takes that floor of the score in its place, and
`floor: chance` its chance. Each claim has one of
- `greater: [A, B]`: A exceeds B, by more than `by` where that is given (it may be negative),
- `ordered: [A, B, C]`: each exceeds the next, the largest first,
- `within: [LOW, HIGH]`: the score lies there,
- `needs: TEXT`: nothing in vlbench can show it, for lack of this.
`each` lists values: what is claimed must hold for every one of them, and every combination.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from vlbench.catalog.specs import TaskSpec, checked, is_at
from vlbench.catalog.strict_yaml import Document, load_yaml
from vlbench.errors import SpecError, unknown

SIDE_KEYS: dict[str, tuple[type, ...]] = {
    "model": (str, list),
    "task": (str, list),
    "metric": (str,),
    "at": (dict, list),
    "floor": (str,),
}
EACH_KEYS: dict[str, tuple[type, ...]] = {"model": (str, list), "task": (list,), "at": (list,)}

# Names for lists of models.
Lists = Mapping[str, Sequence[str]]

Place = tuple[str, ...]


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


def cases_of(
    document: Document, place: Place, each: Mapping[str, Any], lists: Lists
) -> list[dict[str, Any]]:
    """Return every combination of the values that `each` lists. Raises SpecError."""
    values, problems = checked(document, each, EACH_KEYS, place)
    empty = [
        f"{document.where(*place, key)}: '{key}' is empty" for key in values if not values[key]
    ]
    if problems or empty:
        raise SpecError("\n".join(problems + empty))
    if "model" in values:
        values["model"] = _models(values["model"], lists)
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def comparisons_of(
    document: Document,
    place: Place,
    values: Mapping[str, Any],
    case: Mapping[str, Any],
    lists: Lists,
) -> list[Comparison]:
    """Return the comparisons of one case of a claim; the last part of `place` is its relation.

    Raises SpecError.
    """
    where, relation = document.where(*place), place[-1]
    given, label = values[relation], _label(case)
    base = _joined({key: values[key] for key in SIDE_KEYS if key in values}, case)
    if relation == "within":
        if len(given) != 2 or not all(type(x) in {int, float} for x in given):
            raise SpecError(f"{where}: 'within' is [a number, a number], not {given!r}")
        if given[0] > given[1]:
            raise SpecError(f"{where}: 'within' is [low, high]; {given[0]} is above {given[1]}")
        return [Comparison(label, [_side(document, place, base, {}, lists)], *given)]
    if len(given) < 2 or (relation == "greater" and len(given) > 2):
        wanted = "two sides" if relation == "greater" else "two sides or more"
        raise SpecError(f"{where}: '{relation}' has {wanted}, not {len(given)}")
    sides = [_side(document, (*place, str(i)), base, one, lists) for i, one in enumerate(given)]
    return [Comparison(label, pair, values.get("by", 0)) for pair in pairwise(sides)]


def _side(
    document: Document, place: Place, base: Mapping[str, Any], given: Any, lists: Lists
) -> Side:
    where = document.where(*place)
    if not isinstance(given, dict):
        raise SpecError(f"{where}: a side is {{model: ..., at: ...}}, not {given!r}")
    own, problems = checked(document, given, SIDE_KEYS, place)
    whole = _joined(base, own)
    for key in ("model", "task", "metric"):
        names = _list(whole.get(key) or [])
        if not names:
            problems.append(f"{where}: '{key}' is missing, here and beside the claim")
        problems += [f"{where}: no {key}: {name!r}" for name in names if not isinstance(name, str)]
    wrong = [at for at in whole["at"] if not is_at(at)] if whole["at"] else [[]]
    problems += [f"{where}: no conditions: {at!r}" for at in wrong]
    if problems:
        raise SpecError("\n".join(problems))
    label = _label(own) or _label({"model": whole["model"]})
    models, tasks = _models(whole["model"], lists), _list(whole["task"])
    return Side(label, models, tasks, whole["metric"], whole["at"], whole.get("floor", ""))


def _joined(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of both, the own ones first; conditions are those of both."""
    both = product(_list(base.get("at", {})), _list(own.get("at", {})))
    at = [{**a, **b} if isinstance(a, dict) and isinstance(b, dict) else b for a, b in both]
    return {**base, **own, "at": at}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _models(value: Any, lists: Lists) -> list[Any]:
    """Return the models that a name, or a list of them, stands for."""
    return [
        model
        for name in _list(value)
        for model in (lists.get(name, [name]) if isinstance(name, str) else [name])
    ]


def _label(own: Mapping[str, Any]) -> str:
    """Return what sets a side or a case apart, for a reader."""
    words = [
        ", ".join(f"{k} {v}" for k, v in part.items()) if isinstance(part, dict) else str(part)
        for key in SIDE_KEYS
        for part in _list(own.get(key, []))
    ]
    return f"{words[0]} to {words[-1]}" if len(words) > 4 else ", ".join(words)


# The folder that tells claims from tasks.
FOLDER = "claims"

FILE_KEYS: dict[str, tuple[type, ...]] = {
    "paper": (str,),
    "title": (str,),
    "models": (dict,),
    "claims": (list,),
}
RELATIONS = ("greater", "ordered", "within", "needs")
CLAIM_KEYS: dict[str, tuple[type, ...]] = {
    "claim": (str,),
    "where": (str,),
    **{key: kinds for key, kinds in SIDE_KEYS.items() if key != "floor"},
    "each": (dict,),
    "greater": (list,),
    "by": (int, float),
    "ordered": (list,),
    "within": (list,),
    "needs": (str,),
}


@dataclass(frozen=True)
class Claim:
    """One finding, and the comparisons that would show it; or what vlbench lacks to show it."""

    text: str
    where: str
    place: str
    comparisons: Sequence[Comparison] = ()
    needs: str = ""


@dataclass(frozen=True)
class ClaimsSpec:
    """The claims of one paper, or of one user."""

    name: str
    source: Path
    document: Document
    paper: str = ""
    title: str = ""
    claims: Sequence[Claim] = ()

    @property
    def file(self) -> Path:
        """The YAML file."""
        return self.document.file


def load_claims(file: Path, source: Path) -> list[ClaimsSpec]:
    """Return the claims of a YAML file. Raises SpecError with what is wrong with each."""
    document = load_yaml(file)
    values, problems = checked(document, document.values, FILE_KEYS, ())
    if not values.get("claims"):
        problems.append(f"{file}: 'claims' is missing or empty; list them")
    lists = values.get("models", {})
    problems += _list_problems(document, lists) if isinstance(lists, dict) else []
    if problems:
        raise SpecError("\n".join(problems))
    claims: list[Claim] = []
    for i, entry in enumerate(values["claims"]):
        try:
            claims.append(_claim(document, i, entry, lists))
        except SpecError as error:
            problems.append(str(error))
    if problems:
        raise SpecError("\n".join(problems))
    about = {key: values[key] for key in ("paper", "title") if key in values}
    return [ClaimsSpec(file.stem, source, document, claims=claims, **about)]


def task_problems(spec: ClaimsSpec, tasks: Mapping[str, TaskSpec]) -> list[str]:
    """Return each task of a claim that no source has."""
    named = {
        (claim.place, name): None
        for claim in spec.claims
        for comparison in claim.comparisons
        for side in comparison.sides
        for name in side.tasks
    }
    return [f"{place}: {unknown('task', t, tasks)}" for place, t in named if t not in tasks]


def _list_problems(document: Document, lists: Mapping[str, Any]) -> list[str]:
    return [
        f"{document.where('models', str(name))}: '{name}' must be a list of models, not {models!r}"
        for name, models in lists.items()
        if not (isinstance(models, list) and models and all(isinstance(m, str) for m in models))
    ]


def _claim(document: Document, i: int, entry: Any, lists: Mapping[str, list[str]]) -> Claim:
    place = ("claims", str(i))
    where = document.where(*place)
    if not isinstance(entry, dict) or not isinstance(entry.get("claim"), str):
        raise SpecError(f"{where}: a claim is {{claim: a sentence, ...}}")
    values, problems = checked(document, entry, CLAIM_KEYS, place)
    found = [name for name in RELATIONS if name in values]
    if len(found) != 1:
        wanted = f"{', '.join(RELATIONS[:-1])} and {RELATIONS[-1]}"
        problems.append(f"{where}: a claim has one of {wanted}; this one has {len(found)}")
    if "by" in values and "greater" not in values:
        problems.append(f"{document.where(*place, 'by')}: 'by' belongs to 'greater'")
    if problems:
        raise SpecError("\n".join(problems))
    about = (values["claim"], values.get("where", ""), where)
    if "needs" in values:
        return Claim(*about, needs=values["needs"])
    comparisons = [
        comparison
        for case in cases_of(document, (*place, "each"), values.get("each", {}), lists)
        for comparison in comparisons_of(document, (*place, found[0]), values, case, lists)
    ]
    return Claim(*about, comparisons)
