"""The verdicts on a finding: one, or for a finding that ranges over models one for each.

Of k models that are tested, the p-values for and those against are each corrected by Holm's rule
over the models, at 2.5 %: the probability of calling any model wrongly, in either direction, is at
most 5 %. Intervals are not corrected.
"""

from __future__ import annotations

from vlbench.catalog.findings import Finding
from vlbench.catalog.listed_capabilities import capabilities_of, needs_of
from vlbench.catalog.specs import ModelSpec
from vlbench.metrics.paired import holm
from vlbench.report.judging import (
    MISSING,
    Compared,
    Evidence,
    Judgement,
    judge,
    tasks_of,
    verdict,
)


def verdicts(finding: Finding, evidence: Evidence) -> dict[str, Judgement]:
    """Return the verdict on each model that a finding ranges over, corrected over those tested.

    That of a finding that ranges over no models stands under "".
    """
    if not finding.range:
        return {"": judge(finding, evidence)}
    by_model = {model: judge(finding.of(model), evidence) for model in models_in(finding, evidence)}
    tested = {model: one for model, one in by_model.items() if one.verdict != MISSING}
    p_for, p_against = (
        holm([getattr(one, key) for one in tested.values()]) for key in ("p_for", "p_against")
    )
    for (model, one), mine, theirs in zip(tested.items(), p_for, p_against, strict=True):
        corrected = one._replace(verdict=verdict(mine, theirs), p_for=mine, p_against=theirs)
        by_model[model] = corrected
    return by_model


def models_in(finding: Finding, evidence: Evidence) -> list[str]:
    """Return the models that a finding ranges over, by name, without those that its sides name.

    They are those of its list, or those with a row on one of its boards that have the capabilities;
    no controls. What no models.yaml lists has the capabilities that the tasks of its rows need.
    """
    assert finding.range
    named = {model for side in finding.sides for model in side.models}
    can, controls = dict.fromkeys(finding.range.models), set[str]()
    wanted, known = set(finding.range.capabilities), evidence.catalog.models
    for task in {task for side in finding.sides for task in tasks_of(side, evidence.catalog)}:
        board, needs = evidence.boards[task], needs_of(evidence.catalog.tasks[task]) or ""
        for row in board.results if board else ():
            listed = known.get(row.model.partition("[")[0])
            own = _capabilities(listed) if listed else {*needs.split(" | ")}
            controls |= {row.model} if row.is_control else set()
            can |= {row.model: None} if wanted and wanted <= own else {}
    return [model for model in sorted(can) if model not in named | controls]


def _capabilities(spec: ModelSpec) -> set[str]:
    """Return the capabilities of a model that can be had."""
    return set() if spec.unavailable else set(capabilities_of(spec) or ())


def weakest(judgement: Judgement) -> Compared:
    """Return the comparison of a finding that its support depends on."""
    return max(judgement.compared, key=lambda compared: compared.p_for)


def estimate(compared: Compared) -> float:
    """Return a difference of two sides, or the score of one."""
    return compared.values[0] - (compared.values[1] if len(compared.values) > 1 else 0.0)
