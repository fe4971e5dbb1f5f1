"""Pooling: from one vector per token to one per text.

`counted` marks the tokens that count: no padding, and no prompt that the model leaves out.
"""

from __future__ import annotations

import torch
from torch import Tensor

MASKED = -1e30  # finite, so that nothing downstream is NaN


def mean_pool(tokens: Tensor, counted: Tensor) -> Tensor:
    """Return the mean over the tokens that count.

    [B, S, D] float, [B, S] bool -> [B, D]; zeros if none counts.
    """
    keep = counted.unsqueeze(-1).to(tokens.dtype)  # [B, S, 1]
    return (tokens * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1.0)


def cls_pool(tokens: Tensor, counted: Tensor) -> Tensor:
    """Return the vector of the first token that counts.

    [B, S, D] float, [B, S] bool -> [B, D]; zeros if none counts.
    """
    first = counted & (counted.cumsum(dim=1) == 1)
    return (tokens * first.unsqueeze(-1).to(tokens.dtype)).sum(dim=1)


def last_pool(tokens: Tensor, counted: Tensor) -> Tensor:
    """Return the vector of the last token that counts.

    [B, S, D] float, [B, S] bool -> [B, D]; zeros if none counts.
    """
    # [B, S]; 0: not counted
    places = torch.arange(1, counted.shape[1] + 1, device=counted.device) * counted
    last = counted & (places == places.amax(dim=1, keepdim=True))
    return (tokens * last.unsqueeze(-1).to(tokens.dtype)).sum(dim=1)


def max_pool(tokens: Tensor, counted: Tensor) -> Tensor:
    """Return the maximum of each dimension over the tokens that count.

    [B, S, D] float, [B, S] bool -> [B, D]; zeros if none counts.
    """
    largest = torch.where(counted.unsqueeze(-1), tokens, MASKED).amax(dim=1)
    return torch.where(counted.any(dim=1, keepdim=True), largest, 0.0)


def weighted_mean_pool(tokens: Tensor, counted: Tensor) -> Tensor:
    """Return the mean in which the i-th token has weight i (Muennighoff 2022, SGPT).

    i counts from the text's first token, left-out ones included.
    [B, S, D] float, [B, S] bool -> [B, D]; zeros if none counts.
    """
    places = torch.arange(1, counted.shape[1] + 1, device=counted.device, dtype=tokens.dtype)
    weights = (places * counted.to(tokens.dtype)).unsqueeze(-1)  # [B, S, 1]
    return (tokens * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def mean_sqrt_len_pool(tokens: Tensor, counted: Tensor) -> Tensor:
    """Return the sum divided by the square root of the number of tokens that count.

    [B, S, D] float, [B, S] bool -> [B, D]; zeros if none counts.
    """
    keep = counted.unsqueeze(-1).to(tokens.dtype)
    return (tokens * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1.0).sqrt()


# The runtime knows modes by name, too: POOLING_MODES in headlight/spec.py,
# `is_one_token`, `pooled_token` and `pooling_weights` in headlight/outputs/maps.
POOLING = {
    "mean": mean_pool,
    "cls": cls_pool,
    "max": max_pool,
    "last": last_pool,
    "weighted_mean": weighted_mean_pool,
    "mean_sqrt_len": mean_sqrt_len_pool,
}


def unit_length(vectors: Tensor) -> Tensor:
    """Scale each row of [B, D] to Euclidean length 1; a zero row stays zero."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / length.clamp(min=1e-12)
