"""Masking of attention scores."""

from __future__ import annotations

import torch
from torch import Tensor

# Added to the score of an invisible key. Finite, so that a row without any visible key is not 0/0;
# large enough that exp() of it is exactly 0 in every float format; small enough to stay finite when
# a runtime computes in bfloat16.
MASKED_SCORE = -1e30


def score_bias(visible: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to the scores: `bias` at visible keys, MASKED_SCORE elsewhere.

    None if nothing is added.
    """
    if visible is not None:
        bias = torch.where(visible, 0.0 if bias is None else bias, MASKED_SCORE)
    return None if bias is None else bias.to(dtype)
