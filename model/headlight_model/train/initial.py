"""Starting weights that differ from PyTorch's own.

Embeddings begin as word vectors, whose mean is a good text vector from the start. Blocks begin with
small outputs, so that training starts from a bag of words and can only gain.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from headlight_model.encoder import Encoder
from headlight_model.train.objectives import MaskedTokenHead

POSITION_DEVIATION = 0.02  # of learned positions
# Deviation of the rarest word's vector if positions are added; times sqrt(dim), its length.
WORDS_BESIDE_POSITIONS = 0.6
# Weights and biases of what a block adds to the stream.
WRITES = ("project_out.weight", "down.weight", "project_out.bias", "down.bias")
QUIET = 0.1  # factor on PyTorch's own starting values
POSITION_ENERGY = 0.995  # share of the variance of positions that text vectors leave out


def word_scale(encoder: Encoder) -> float:
    """Return the factor on the word vectors, which have at most length 1.

    It is 1 if no positions are added: the encoder then multiplies by sqrt(dim).
    """
    return WORDS_BESIDE_POSITIONS * math.sqrt(encoder.config.dim) if encoder.positions.adds else 1.0


@torch.no_grad()
def initialise_encoder(encoder: Encoder, words: Tensor) -> None:
    """Set the embeddings, the projection and what blocks add.

    A sinusoidal model begins with heads that attend to near tokens.

    Args:
        words: float [V, dim], of length 1 at most, in the directions of text vectors.
    """
    places = position_vectors(encoder)  # [S, dim]
    hidden = varying_directions(places)  # [K, dim]
    dim = encoder.config.dim
    turn, _ = torch.linalg.qr(torch.randn(dim, dim))
    length, words = words.norm(dim=1, keepdim=True), words @ turn
    inside = words - words @ hidden.T @ hidden
    inside = inside * (length / inside.norm(dim=1, keepdim=True)) * word_scale(encoder)
    # Minus the mean of the positions, which would make all texts alike.
    encoder.embedding.weight.copy_(inside - places.mean(dim=0))
    # The projection keeps angles, and removes the directions in which positions vary.
    encoder.dense[0].get_parameter("weight").copy_(turn - turn @ hidden.T @ hidden)
    for table in encoder.positions.parameters():
        nn.init.normal_(table, std=POSITION_DEVIATION)
    for name, weight in encoder.named_parameters():
        if name.endswith(WRITES):
            weight.mul_(QUIET)
    if encoder.config.positions == "sinusoidal":
        look_around(encoder)


def position_vectors(encoder: Encoder) -> Tensor:
    """Return what fixed positions add to the tokens of a text: float [trained_length, dim].

    Zeros if nothing fixed is added.
    """
    length, dim = encoder.config.trained_length, encoder.config.dim
    if encoder.config.positions != "sinusoidal":
        return torch.zeros(length, dim)
    state = encoder.positions.prepare(torch.arange(length).unsqueeze(0))
    places: Tensor = encoder.positions.embed(torch.zeros(1, length, dim), state)
    return places[0]


def varying_directions(places: Tensor) -> Tensor:
    """Return orthonormal rows [K, D] that span nearly all variance of the rows of float [S, D].

    K is 0 if the rows are equal.
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

    This holds for any size of the embeddings that compute them.
    """
    length = encoder.embedding.weight[:, : head.dim].norm(dim=1).square().mean().sqrt()
    nn.init.constant_(head.norm.weight, 1 / float(length))
