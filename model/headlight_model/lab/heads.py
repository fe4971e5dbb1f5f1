"""Attention of single heads, and the accuracy lost without each."""

from __future__ import annotations

import torch
from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.lab.tasks import Examples
from headlight_model.lab.training import accuracy, places


@torch.inference_mode()
def maps(encoder: Encoder, ids: Tensor, *, blind: bool = False) -> Tensor:
    """Return the attention of every head: float [L, B, H, S, S], rows are queries.

    Arguments as in `training.accuracy`.
    """
    return torch.stack(encoder(ids, positions=places(ids, blind=blind), fused=False).attention)


def antidiagonal_mass(weights: Tensor) -> Tensor:
    """Return the share of attention on the mirrored token: [..., S, S] -> [...].

    That token is as far from the end as the query is from the start.

    mean_i A[i, S-1-i]: 1 for a head that attends to nothing else, 1/S for uniform attention.
    """
    return weights.flip(-1).diagonal(dim1=-2, dim2=-1).mean(dim=-1)


def lost_without(encoder: Encoder, examples: Examples, kind: str) -> list[list[float]]:
    """Return the loss of accuracy if one head is removed: [L][H].

    The other heads stay as they are (Michel et al. 2019, 3.2).
    """
    config = encoder.config
    whole = accuracy(encoder, examples)[kind]
    lost: list[list[float]] = []
    for layer in range(config.layers):
        lost.append([])
        for head in range(config.heads):
            mask = torch.ones(1, config.layers, config.heads)
            mask[0, layer, head] = 0
            lost[-1].append(whole - accuracy(encoder, examples, head_mask=mask)[kind])
    return lost
