"""The kinds of matrices that rows keep, by which models are compared with each other."""

from __future__ import annotations

from typing import Any, NamedTuple


class Kind(NamedTuple):
    """What matrices are compared, the table of what they are over, and what scores are called.

    `measure` is what figures call the score of a pair, `rank` its rank correlation, if it has one.
    """

    matrix: str
    over: str
    pair: str
    mean: str
    floor: str
    measure: str
    rank: str = ""

    @property
    def primary(self) -> dict[str, Any]:
        """Return which score represents a model."""
        return {"metric": self.mean, "at": {}}


KINDS = {
    kind.matrix: kind
    for kind in (
        Kind(
            "rdm",
            "classes",
            "rdm_correlation",
            "mean_rdm_correlation",
            "class_permutations",
            "correlation",
            "rdm_spearman",
        ),
        Kind(
            "kernel",
            "images",
            "pair_cka_debiased",
            "mean_cka_debiased",
            "image_permutations",
            "debiased CKA",
        ),
    )
}

# Scores of pairs of models, which the summary of a group holds and none of its tasks.
OF_PAIRS = {name for kind in KINDS.values() for name in (kind.pair, kind.mean, kind.rank) if name}
