"""The kinds of matrices that rows store for comparing models with each other."""

from __future__ import annotations

from typing import Any, NamedTuple


class Kind(NamedTuple):
    """A kind of matrices: its name, the table of its classes or images, and names of scores.

    `measure` is the name of a pair's score in figures, `rank` its rank correlation, if there is
    one.
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
        """Return the condition that selects the primary score of a model."""
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

# Scores of pairs of models, which are in the summary of a group but not in its tasks.
OF_PAIRS = {name for kind in KINDS.values() for name in (kind.pair, kind.mean, kind.rank) if name}
