"""Optimiser of the training."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headlight_model.train.recipe import Recipe


def build_optimizer(parts: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Return AdamW with weight decay for the matrices of blocks and heads only.

    Embeddings have a learning rate of their own.
    """
    decayed: list[Tensor] = []
    free: list[Tensor] = []
    embeddings: list[Tensor] = []
    for name, weight in parts.named_parameters():
        if name.startswith("encoder.embedding"):
            embeddings.append(weight)
        else:
            (decayed if weight.ndim > 1 and not name.startswith("encoder.dense") else free).append(
                weight
            )
    groups = [
        {"params": decayed, "weight_decay": recipe.weight_decay, "pace": 1.0},
        {"params": free, "weight_decay": 0.0, "pace": 1.0},
        {"params": embeddings, "weight_decay": 0.0, "pace": recipe.embedding_pace},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)
