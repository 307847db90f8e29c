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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlbench.catalog.comparisons import SIDE_KEYS, Comparison, cases_of, comparisons_of
from vlbench.catalog.specs import TaskSpec
from vlbench.catalog.strict_yaml import Document, load_yaml
from vlbench.catalog.values import checked
from vlbench.errors import SpecError, unknown

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
