"""From a vector per token to a vector per text."""

from __future__ import annotations

import torch
from torch import Tensor


def mean_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """Mean over the tokens that are not padding. [B, S, D] float, [B, S] bool -> [B, D]; zeros where all is padding."""
    keep = mask.unsqueeze(-1).to(tokens.dtype)  # [B, S, 1]
    return (tokens * keep).sum(dim=1) / keep.sum(dim=1).clamp(min=1.0)


def cls_pool(tokens: Tensor, mask: Tensor) -> Tensor:
    """The first token's vector. [B, S, D] float, [B, S] bool -> [B, D]; zeros where it is padding."""
    return tokens[:, 0] * mask[:, :1].to(tokens.dtype)


POOLING = {"mean": mean_pool, "cls": cls_pool}


def unit_length(vectors: Tensor) -> Tensor:
    """Scale each row of [B, D] to Euclidean length 1; a zero row stays zero."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / length.clamp(min=1e-12)
