"""Starting weights, where PyTorch's own would not do. Those of a sinusoidal model decide whether it finds order at all."""

from __future__ import annotations

import math

import torch
from torch import nn

from model.encoder import Encoder
from model.train.objectives import MaskedTokenHead

POSITION_DEVIATION = 0.7  # of sinusoids; learned positions start as loud
BESIDE_POSITIONS = 0.3  # deviation of token embeddings that positions are added to


def embedding_deviation(encoder: Encoder) -> float:
    """Standard deviation of the starting token embeddings.

    1/sqrt(D), which the encoder multiplies by sqrt(D); small enough not to drown the positions where they are added.
    """
    return BESIDE_POSITIONS if encoder.positions.adds else 1 / math.sqrt(encoder.config.dim)


@torch.no_grad()
def initialise_encoder(encoder: Encoder) -> None:
    """Set the embeddings, shrink what each block adds, and let a sinusoidal model begin by looking around itself.

    The factor 1/sqrt(2 L) is GPT-2's (Radford et al. 2019, 2.3).
    """
    nn.init.normal_(encoder.embedding.weight, std=embedding_deviation(encoder))
    for table in encoder.positions.parameters():
        nn.init.normal_(table, std=POSITION_DEVIATION)
    for name, weight in encoder.named_parameters():
        if name.endswith(("project_out.weight", "down.weight")):
            weight.mul_(1 / math.sqrt(2 * encoder.config.layers))
    if encoder.config.positions == "sinusoidal":
        look_around(encoder)


@torch.no_grad()
def look_around(encoder: Encoder) -> None:
    """Add the identity on the first d dimensions to the query and key projections of every head.

    There the sinusoids oscillate fastest, so the score of two tokens starts as a sum of cos(distance * frequency), highest
    at distance 0. Heads turn this into "the one before" and the like within hundreds of steps; from random projections,
    whose scores are flat, thousands of steps taught them nothing of order. After Trockman and Kolter 2023, "Mimetic
    initialization of self-attention layers".
    """
    config = encoder.config
    near = torch.eye(config.head_dim, config.dim).repeat(2 * config.heads, 1)  # [2 D, D]: of each head's Q, then K
    for name, weight in encoder.named_parameters():
        if name.endswith("project_in.weight"):
            weight[: 2 * config.dim] += near


def initialise_head(head: MaskedTokenHead, encoder: Encoder) -> None:
    """Scale the head's norm so that logits start at variance 1, whatever the size of the embeddings they are read by."""
    nn.init.constant_(head.norm.weight, 1 / (embedding_deviation(encoder) * math.sqrt(encoder.config.dim)))
