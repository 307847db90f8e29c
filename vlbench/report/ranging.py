"""Findings that range over models: a verdict for each model, and what the verdicts add up to.

Of k models that are tested, the p-values for and those against are each corrected by Holm's rule
over the models, at 2.5 %: the probability of calling any model wrongly, in either direction, is at
most 5 %. Intervals are not corrected. Heterogeneity is Cochran's Q over the models' differences,
with I^2 (Higgins & Thompson 2002, doi:10.1002/sim.1186), where a finding is one comparison. Q takes
the differences to be independent. Models share items, and their control where they have one, which
makes their differences alike and Q small: a small p shows that models differ, a large one nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from vlbench.catalog.findings import Finding
from vlbench.catalog.listed_capabilities import needs_of
from vlbench.metrics.intervals import ROUNDING, Z95
from vlbench.metrics.paired import holm
from vlbench.report.judging import (
    CONTRADICTED,
    LEVEL,
    MISSING,
    SUPPORTED,
    UNDECIDED,
    Compared,
    Evidence,
    Judgement,
    judge,
    tasks_of,
    verdict,
)

# The power at which a difference is called detectable.
POWER = 0.8


class Heterogeneity(NamedTuple):
    """Whether models differ in an effect: Cochran's Q, its degrees of freedom, p, and I^2, 0..1."""

    q: float
    freedom: int
    p: float
    i2: float


class RangeJudgement(NamedTuple):
    """The verdict on each model in the range, those of models without rows being missing.

    `detectable` are the least and the greatest difference that these tests find, with a power of
    0.8, in the models tested; None where none has an interval with a width. Both are left out where
    the scores have different units, such as cosines and probabilities.
    """

    finding: Finding
    by_model: Mapping[str, Judgement]
    heterogeneity: Heterogeneity | None = None
    detectable: tuple[float, float] | None = None

    @property
    def tested(self) -> dict[str, Judgement]:
        """The models that have what it takes to judge the finding."""
        return {m: one for m, one in self.by_model.items() if one.verdict != MISSING}

    @property
    def counts(self) -> dict[str, int]:
        """How many models have each verdict."""
        verdicts = [one.verdict for one in self.by_model.values()]
        return {v: verdicts.count(v) for v in (SUPPORTED, CONTRADICTED, UNDECIDED, MISSING)}


def judge_range(finding: Finding, evidence: Evidence) -> RangeJudgement:
    """Return the verdict on each model that a finding ranges over, corrected over those tested."""
    by_model = {model: judge(finding.of(model), evidence) for model in models_in(finding, evidence)}
    tested = {model: one for model, one in by_model.items() if one.verdict != MISSING}
    p_for, p_against = (
        holm([getattr(one, key) for one in tested.values()]) for key in ("p_for", "p_against")
    )
    for (model, one), mine, theirs in zip(tested.items(), p_for, p_against, strict=True):
        corrected = one._replace(verdict=verdict(mine, theirs), p_for=mine, p_against=theirs)
        by_model[model] = corrected
    deciding = [weakest(one) for one in tested.values()]
    if len({one.unit for one in deciding}) != 1:
        return RangeJudgement(finding, by_model)
    errors = [standard_error(one) for one in deciding]
    sizes = [detectable(error, len(tested)) for error in errors if error]
    effects, single = [estimate(one) for one in deciding], len(finding.comparisons) == 1
    return RangeJudgement(
        finding=finding,
        by_model=by_model,
        heterogeneity=heterogeneity(effects, errors) if single else None,
        detectable=(min(sizes), max(sizes)) if sizes else None,
    )


def models_in(finding: Finding, evidence: Evidence) -> list[str]:
    """Return the models that a finding ranges over, by name, without those that its sides name.

    They are those of its list, or those with a row on one of its boards that have the capabilities;
    no controls. What no models.yaml lists has the capabilities that the tasks of its rows need.
    """
    assert finding.range
    named = {model for side in finding.sides for model in side.models}
    can, controls = dict.fromkeys(finding.range.models), set[str]()
    wanted = set(finding.range.capabilities)
    for task in {task for side in finding.sides for task in tasks_of(side, evidence.catalog)}:
        board, needs = evidence.boards[task], needs_of(evidence.catalog.tasks[task]) or ""
        for row in board.results if board else ():
            listed = row.model.partition("[")[0]
            known = listed in evidence.catalog.models
            own = evidence.abilities.get(listed, set()) if known else {*needs.split(" | ")}
            controls |= {row.model} if row.is_control else set()
            can |= {row.model: None} if wanted and wanted <= own else {}
    return [model for model in sorted(can) if model not in named | controls]


def weakest(judgement: Judgement) -> Compared:
    """Return the comparison of a finding that its support depends on."""
    return max(judgement.compared, key=lambda compared: compared.p_for)


def estimate(compared: Compared) -> float:
    """Return a difference of two sides, or the score of one."""
    return compared.values[0] - (compared.values[1] if len(compared.values) > 1 else 0.0)


def standard_error(compared: Compared) -> float:
    """Return the standard error that a 95 % interval stands for; 0 without one."""
    low, high = compared.interval or (0.0, 0.0)
    return (high - low) / (2 * Z95)


def detectable(error: float, models: int) -> float:
    """Return the difference found with a power of 0.8 in one of `models` models, by Bonferroni."""
    normal = NormalDist()
    return (normal.inv_cdf(1 - LEVEL / models) + normal.inv_cdf(POWER)) * error


def heterogeneity(values: Sequence[float], errors: Sequence[float]) -> Heterogeneity | None:
    """Return Cochran's Q of estimates; None for fewer than two that have a standard error."""
    from scipy.special import chdtrc  # noqa: PLC0415 - listings must not wait for it

    pairs = [(value, 1 / error**2) for value, error in _varying(values, errors)]
    if len(pairs) < 2:
        return None
    centre = sum(weight * value for value, weight in pairs) / sum(weight for _, weight in pairs)
    q = sum(weight * (value - centre) ** 2 for value, weight in pairs)
    freedom = len(pairs) - 1
    return Heterogeneity(
        q, freedom, float(chdtrc(freedom, q)), max(0.0, 1 - freedom / q) if q else 0
    )


def _varying(values: Sequence[float], errors: Sequence[float]) -> Iterator[tuple[float, float]]:
    return ((v, error) for v, error in zip(values, errors, strict=True) if error > ROUNDING)
