"""The verdict on a finding, or, if a finding ranges over models, a verdict for each model.

For k tested models, the p-values for and the p-values against are each corrected by Holm's rule
over the models, at 2.5 %: the probability of any wrong verdict, in either direction, is at most 5
%. Intervals are not corrected.
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
    """Return the verdict on each model that a finding ranges over, corrected over tested models.

    The verdict on a finding that ranges over no models has the key "".
    """
    if not finding.range:
        return {"": judge(finding, evidence)}
    by_model = {model: judge(finding.of(model), evidence) for model in models_in(finding, evidence)}
    tested = {model: one for model, one in by_model.items() if one.verdict != MISSING}
    p_for, p_against = (
        holm([getattr(one, key) for one in tested.values()]) for key in ("p_for", "p_against")
    )
    for (model, judgement), mine, theirs in zip(tested.items(), p_for, p_against, strict=True):
        corrected = judgement._replace(verdict=verdict(mine, theirs), p_for=mine, p_against=theirs)
        by_model[model] = corrected
    return by_model


def models_in(finding: Finding, evidence: Evidence) -> list[str]:
    """Return the models that a finding ranges over, by name, without those that its sides name.

    They are the models of its list, or the models with a row on one of its boards that have the
    capabilities; controls are left out. A model that no models.yaml lists is taken to have the
    capabilities that the tasks of its rows need.
    """
    assert finding.range
    excluded = {model for side in finding.sides for model in side.models}
    can, controls = dict.fromkeys(finding.range.models), set[str]()
    needed, models = set(finding.range.capabilities), evidence.catalog.models
    for task in {task for side in finding.sides for task in tasks_of(side, evidence.catalog)}:
        board, needs = evidence.boards[task], needs_of(evidence.catalog.tasks[task]) or ""
        for row in board.results if board else ():
            spec = models.get(row.model.partition("[")[0])
            capabilities = _capabilities(spec) if spec else {*needs.split(" | ")}
            controls |= {row.model} if row.is_control else set()
            can |= {row.model: None} if needed and needed <= capabilities else {}
    return [model for model in sorted(can) if model not in excluded | controls]


def _capabilities(spec: ModelSpec) -> set[str]:
    """Return the capabilities of a model; empty if it is unavailable."""
    return set() if spec.unavailable else set(capabilities_of(spec) or ())


def weakest(judgement: Judgement) -> Compared:
    """Return the comparison of a finding with the weakest support (the largest p)."""
    return max(judgement.compared, key=lambda compared: compared.p_for)


def estimate(compared: Compared) -> float:
    """Return the difference of two sides, or the score of a single side."""
    return compared.values[0] - (compared.values[1] if len(compared.values) > 1 else 0.0)
