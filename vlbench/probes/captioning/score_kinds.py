"""What kind of number a model's matching score is."""

from __future__ import annotations

from typing import Any

from vlbench.capabilities import SharedSpace

PROBABILITY, COSINE = "probability", "cosine"


def score_kind(model: Any) -> str:
    """Return the adapter's own `score_kind`, else cosine for two towers, and probability.

    Those of different kinds, and of different models unless they are probabilities, have no mean.
    """
    own = getattr(model, "score_kind", "")
    return str(own) if own else COSINE if isinstance(model, SharedSpace) else PROBABILITY
