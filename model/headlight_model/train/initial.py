"""Starting weights, where PyTorch's own would not do.

Embeddings begin as word vectors, of which pooling makes a good vector of a text from the start.
What blocks add to them begins small, so that training starts from a bag of words and can only gain.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from headlight_model.encoder import Encoder
from headlight_model.train.objectives import MaskedTokenHead

POSITION_DEVIATION = 0.02  # of learned positions
# Deviation, times sqrt(dim) the length, of the rarest word's vector there.
WORDS_BESIDE_POSITIONS = 0.6
# What a block adds to the stream.
WRITES = ("project_out.weight", "down.weight", "project_out.bias", "down.bias")
QUIET = 0.1  # of PyTorch's own deviation
POSITION_ENERGY = 0.995  # of what positions vary, hidden from the vectors of texts


def word_scale(encoder: Encoder) -> float:
    """By how much the word vectors, at most of length 1, are multiplied.

    The encoder multiplies the rest by sqrt(dim).
    """
    return WORDS_BESIDE_POSITIONS * math.sqrt(encoder.config.dim) if encoder.positions.adds else 1.0


@torch.no_grad()
def initialise_encoder(encoder: Encoder, words: Tensor) -> None:
    """Set the embeddings, the projection and what blocks add.

    A sinusoidal model begins by looking around itself.

    Args:
        words: float [V, dim], of length 1 at most.
    """
    places = position_vectors(encoder)  # [S, dim]
    hidden = varying_directions(places)  # [K, dim]
    length = words.norm(dim=1, keepdim=True)
    inside = words - words @ hidden.T @ hidden
    inside = inside * (length / inside.norm(dim=1, keepdim=True)) * word_scale(encoder)
    # Less what positions add on average, which would make all texts alike.
    encoder.embedding.weight.copy_(inside - places.mean(dim=0))
    dim = encoder.config.dim
    turn, _ = torch.linalg.qr(torch.randn(dim, dim))
    # Angles are kept; what positions vary by is left out.
    encoder.dense[0].get_parameter("weight").copy_(turn - turn @ hidden.T @ hidden)
    for table in encoder.positions.parameters():
        nn.init.normal_(table, std=POSITION_DEVIATION)
    for name, weight in encoder.named_parameters():
        if name.endswith(WRITES):
            weight.mul_(QUIET)
    if encoder.config.positions == "sinusoidal":
        look_around(encoder)


def position_vectors(encoder: Encoder) -> Tensor:
    """What fixed positions add to the tokens of a text: float [trained_length, dim].

    Zeros where nothing fixed is added.
    """
    length, dim = encoder.config.trained_length, encoder.config.dim
    if encoder.config.positions != "sinusoidal":
        return torch.zeros(length, dim)
    state = encoder.positions.prepare(torch.arange(length).unsqueeze(0))
    places: Tensor = encoder.positions.embed(torch.zeros(1, length, dim), state)
    return places[0]


def varying_directions(places: Tensor) -> Tensor:
    """Orthonormal rows [K, D] that span nearly all that the rows of float [S, D] differ by.

    None where they are equal.
    """
    _, lengths, directions = torch.linalg.svd(places - places.mean(dim=0), full_matrices=False)
    energy = lengths.square().cumsum(0)
    count = int((energy < POSITION_ENERGY * energy[-1]).sum()) + 1 if energy[-1] > 0 else 0
    varying: Tensor = directions[:count]
    return varying


def look_around(encoder: Encoder) -> None:
    """Add the identity on the first d dimensions to the query and key projections of every head.

    There the sinusoids oscillate fastest, so the score of two tokens starts as a sum of
    cos(distance * frequency), highest at distance 0. Heads turn this into "the one before" and the
    like within hundreds of steps; from random projections, whose scores are flat, thousands of
    steps taught them nothing of order. After Trockman and Kolter 2023, "Mimetic initialization of
    self-attention layers".
    """
    config = encoder.config
    # [2 D, D]: of each head's Q, then K
    near = torch.eye(config.head_dim, config.dim).repeat(2 * config.heads, 1)
    for name, weight in encoder.named_parameters():
        if name.endswith("project_in.weight"):
            weight[: 2 * config.dim] += near


@torch.no_grad()
def initialise_head(head: MaskedTokenHead, encoder: Encoder) -> None:
    """Scale the head's norm so that logits start at variance 1.

    That holds whatever the size of the embeddings they are read by.
    """
    length = encoder.embedding.weight[:, : head.dim].norm(dim=1).square().mean().sqrt()
    nn.init.constant_(head.norm.weight, 1 / float(length))
