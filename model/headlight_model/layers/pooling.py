"""Pooling: from one vector per token to one per text."""

from __future__ import annotations

import torch
from torch import Tensor

MASKED = -1e30  # finite, so that nothing downstream is NaN


def mean_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over the tokens that are not padding.

    [B, S, D] float, [B, S] bool -> [B, D]; zeros if all is padding.
    """
    keep = mask.unsqueeze(-1).to(tokens.dtype)  # [B, S, 1]
    return (tokens * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1.0)


def cls_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the vector of the first token that is not padding.

    [B, S, D] float, [B, S] bool -> [B, D]; zeros if all is padding.
    """
    first = mask & (mask.cumsum(dim=1) == 1)
    return (tokens * first.unsqueeze(-1).to(tokens.dtype)).sum(dim=1)


def last_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the vector of the last token that is not padding.

    [B, S, D] float, [B, S] bool -> [B, D]; zeros if all is padding.
    """
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device) * mask  # [B, S]; 0 at padding
    last = mask & (places == places.amax(dim=1, keepdim=True))
    return (tokens * last.unsqueeze(-1).to(tokens.dtype)).sum(dim=1)


def max_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the maximum of each dimension, without padding.

    [B, S, D] float, [B, S] bool -> [B, D]; zeros if all is padding.
    """
    largest = torch.where(mask.unsqueeze(-1), tokens, MASKED).amax(dim=1)
    return torch.where(mask.any(dim=1, keepdim=True), largest, 0.0)


def weighted_mean_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the mean in which the i-th token has weight i (Muennighoff 2022, SGPT).

    [B, S, D] float, [B, S] bool -> [B, D].
    """
    places = torch.arange(1, mask.shape[1] + 1, device=mask.device, dtype=tokens.dtype)
    weights = (places * mask.to(tokens.dtype)).unsqueeze(-1)  # [B, S, 1]
    return (tokens * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def mean_sqrt_len_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the sum divided by the square root of the number of tokens.

    [B, S, D] float, [B, S] bool -> [B, D].
    """
    keep = mask.unsqueeze(-1).to(tokens.dtype)
    return (tokens * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1.0).sqrt()


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
