"""Claims that range over models: a verdict for each model, and what the verdicts add up to.

Of k models that are tested, the p-values for and those against are each corrected by Holm's rule
over the models, at 2.5 %: the probability of calling any model wrongly, in either direction, is at
most 5 %. Intervals stand as they are. Heterogeneity is Cochran's Q over the models' differences,
with I^2 (Higgins & Thompson 2002, doi:10.1002/sim.1186), where a claim is one comparison. Q takes
the differences to be independent. Models share items, and their control where they have one, which
makes their differences alike and Q small: a small p shows that models differ, a large one nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from vlbench.catalog.claims import Claim
from vlbench.catalog.listed_capabilities import needs_of
from vlbench.leaderboard.claims import (
    CONTRADICTED,
    LEVEL,
    MISSING,
    SUPPORTED,
    UNDECIDED,
    Evidence,
    Finding,
    Judgement,
    judge,
    tasks_of,
    verdict,
)
from vlbench.metrics.paired import holm
from vlbench.metrics.statistics import ROUNDING, Z95

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

    claim: Claim
    by_model: Mapping[str, Judgement]
    heterogeneity: Heterogeneity | None = None
    detectable: tuple[float, float] | None = None

    @property
    def tested(self) -> dict[str, Judgement]:
        """The models that have what it takes to judge the claim."""
        return {m: one for m, one in self.by_model.items() if one.verdict != MISSING}

    @property
    def counts(self) -> dict[str, int]:
        """How many models have each verdict."""
        verdicts = [one.verdict for one in self.by_model.values()]
        return {v: verdicts.count(v) for v in (SUPPORTED, CONTRADICTED, UNDECIDED, MISSING)}


def judge_range(claim: Claim, evidence: Evidence) -> RangeJudgement:
    """Return the verdict on each model that a claim ranges over, corrected over those tested."""
    found = {model: judge(claim.of(model), evidence) for model in models_in(claim, evidence)}
    tested = {model: one for model, one in found.items() if one.verdict != MISSING}
    p_for, p_against = (
        holm([getattr(one, key) for one in tested.values()]) for key in ("p_for", "p_against")
    )
    for (model, one), mine, theirs in zip(tested.items(), p_for, p_against, strict=True):
        corrected = one._replace(verdict=verdict(mine, theirs), p_for=mine, p_against=theirs)
        found[model] = corrected
    deciding = [weakest(one) for one in tested.values()]
    if len({finding.unit for finding in deciding}) != 1:
        return RangeJudgement(claim, found)
    errors = [standard_error(one) for one in deciding]
    sizes = [detectable(error, len(tested)) for error in errors if error]
    effects, single = [estimate(one) for one in deciding], len(claim.comparisons) == 1
    return RangeJudgement(
        claim=claim,
        by_model=found,
        heterogeneity=heterogeneity(effects, errors) if single else None,
        detectable=(min(sizes), max(sizes)) if sizes else None,
    )


def models_in(claim: Claim, evidence: Evidence) -> list[str]:
    """Return the models that a claim ranges over, by name, without those that its sides name.

    They are those of the catalog that can be had, and those with a row on a board of the claim. Of
    a model that no models.yaml lists, its capabilities are those that the tasks of its rows need.
    """
    assert claim.range
    named = {model for side in claim.sides for model in side.models}
    if claim.range.models:
        return [model for model in dict.fromkeys(claim.range.models) if model not in named]
    abilities, models = evidence.abilities, evidence.catalog.models
    wanted = set(claim.range.capabilities)
    can = {name for name, own in abilities.items() if wanted <= own}
    for task in {task for side in claim.sides for task in tasks_of(side, evidence.catalog)}:
        board, needs = evidence.boards[task], needs_of(evidence.catalog.tasks[task]) or ""
        for name in {row.model for row in board.results} if board else ():
            listed = name.partition("[")[0]
            own = abilities.get(listed, set()) if listed in models else {*needs.split(" | ")}
            can |= {name} if wanted <= own else set()
    return sorted(can - named)


def weakest(judgement: Judgement) -> Finding:
    """Return the comparison of a claim that its support depends on."""
    return max(judgement.findings, key=lambda finding: finding.p_for)


def estimate(finding: Finding) -> float:
    """Return a difference of two sides, or the score of one."""
    return finding.values[0] - (finding.values[1] if len(finding.values) > 1 else 0.0)


def standard_error(finding: Finding) -> float:
    """Return the standard error that a 95 % interval stands for; 0 without one."""
    low, high = finding.interval or (0.0, 0.0)
    return (high - low) / (2 * Z95)


def detectable(error: float, models: int) -> float:
    """Return the difference found with a power of 0.8 in one of so many models, by Bonferroni."""
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
