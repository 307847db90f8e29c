"""Attention masks of BERT-gen: who sees whom in an input X followed by a question.

True: the row sees the column. A network gets them as additive floats of four dimensions, the one
form that eager and SDPA attention of transformers both read as meant: with masks of bool or of 0
and 1, later tokens leak without an error.
"""

from __future__ import annotations

import torch
from torch import Tensor


def left_to_right(valid: Tensor, tokens: int) -> Tensor:
    """Return who sees whom, bool [B, n + T, n + T], in X [B, n] and T tokens of a question.

    X sees the tokens of X that are `valid`, bool [B, n]; a token of the question sees these, the
    tokens before it, and itself.
    """
    batch, n = valid.shape
    sees = valid.new_zeros(batch, n + tokens, n + tokens)
    sees[:, :, :n] = valid[:, None]
    sees[:, n:, n:] = torch.ones_like(sees[0, n:, n:]).tril()
    return sees


def one_pass(valid: Tensor, tokens: int) -> Tensor:
    """Return who sees whom, bool [B, n + 2T - 1, n + 2T - 1], in X, y_1..y_T-1 and m_1..m_T.

    m_t stands in the place of y_t, which it predicts: it sees X, y_1..y_t-1 and itself. No other
    token sees it. The last y is predicted, but nothing is predicted from it.
    """
    batch, n = valid.shape
    masks = n + tokens - 1
    sees = valid.new_zeros(batch, masks + tokens, masks + tokens)
    sees[:, :masks, :masks] = left_to_right(valid, tokens - 1)
    sees[:, masks:, :n] = valid[:, None]
    before = torch.ones(tokens, tokens - 1, dtype=torch.bool, device=valid.device).tril(-1)
    sees[:, masks:, n:masks] = before
    sees[:, masks:, masks:] = torch.eye(tokens, dtype=torch.bool, device=valid.device)
    return sees


def additive(sees: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to attention scores, [B, 1, rows, columns]: 0 or the least number."""
    mask = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
    return mask.masked_fill(~sees, torch.finfo(dtype).min)[:, None]
