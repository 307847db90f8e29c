"""Scores of matching heads, which classify whether a text and a picture belong together."""

from __future__ import annotations

from torch import Tensor


def log_odds(logits: Tensor, *, match: int) -> Tensor:
    """Return the log-odds of a match, float32 [N], from the [N, 2] logits of a head.

    `match` is the column of the class "match". Papers print the softmax of both columns, the
    probability; it rounds to 0 and 1, but the log-odds do not.

    Example:
        >>> import torch
        >>> log_odds(torch.tensor([[30.0, -10.0]]), match=0).tolist()
        [40.0]
    """
    wide = logits.float()
    return wide[:, match] - wide[:, 1 - match]
