"""Starting weights, where PyTorch's own would not do.

The residual stream begins as two parts. The first `guess_dim` dimensions are for guessing hidden tokens: positions are loud
there, and blocks write there alone at first. The others begin as word vectors, of which pooling makes a good vector of a
text from the start, and blocks learn to add to them slowly.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from headlight_model.encoder import Encoder
from headlight_model.train.objectives import MaskedTokenHead

POSITION_DEVIATION = 0.7  # of sinusoids; learned positions start as loud
BESIDE_POSITIONS = 0.3  # deviation of the guessing part of embeddings that positions are added to
WORDS_BESIDE_POSITIONS = 0.6  # deviation, times sqrt(dim) the length, of the rarest word's vector there
LOUDNESS = 0.6  # length of the guessing part of embeddings that stand alone, where the rarest word's vector has 1
WRITES = ("project_out.weight", "down.weight", "project_out.bias", "down.bias")  # what a block adds to the stream
POSITION_ENERGY = 0.995  # of what positions vary in the meaning part, hidden from the vectors of texts


def guess_deviation(encoder: Encoder, guess_dim: int) -> float:
    """Standard deviation of the guessing part of the starting embeddings: not so loud as to drown positions added to it."""
    return BESIDE_POSITIONS if encoder.positions.adds else LOUDNESS / math.sqrt(guess_dim)


def word_scale(encoder: Encoder) -> float:
    """By how much the word vectors, at most of length 1, are multiplied. The encoder multiplies the rest by sqrt(dim)."""
    return WORDS_BESIDE_POSITIONS * math.sqrt(encoder.config.dim) if encoder.positions.adds else 1.0


@torch.no_grad()
def initialise_encoder(encoder: Encoder, guess_dim: int, words: Tensor) -> None:
    """Set the embeddings, the projection, what blocks add, and let a sinusoidal model begin by looking around itself.

    Args:
        words: float [V, dim - guess_dim], of length 1 at most.
    """
    places = position_vectors(encoder)[:, guess_dim:]  # [S, dim - guess_dim]
    hidden = varying_directions(places)  # [K, dim - guess_dim]
    embedding = encoder.embedding.weight
    nn.init.normal_(embedding, std=guess_deviation(encoder, guess_dim))
    length = words.norm(dim=1, keepdim=True)
    inside = words - words @ hidden.T @ hidden
    # Less what positions add on average, which would make all texts alike.
    inside = inside * (length / inside.norm(dim=1, keepdim=True)) * word_scale(encoder) - places.mean(dim=0)
    embedding[:, guess_dim:] = inside
    initialise_projection(encoder, guess_dim, hidden)
    for table in encoder.positions.parameters():
        nn.init.normal_(table, std=POSITION_DEVIATION)
        table[:, guess_dim:] = 0
    for name, weight in encoder.named_parameters():
        if name.endswith(WRITES):
            weight.mul_(1 / math.sqrt(2 * encoder.config.layers))  # Radford et al. 2019 (GPT-2), 2.3
            weight[guess_dim:] = 0
    if encoder.config.positions == "sinusoidal":
        look_around(encoder)


def position_vectors(encoder: Encoder) -> Tensor:
    """What fixed positions add to the tokens of a text: float [trained_length, dim]; zeros where nothing fixed is added."""
    length, dim = encoder.config.trained_length, encoder.config.dim
    if encoder.config.positions != "sinusoidal":
        return torch.zeros(length, dim)
    state = encoder.positions.prepare(torch.arange(length).unsqueeze(0))
    places: Tensor = encoder.positions.embed(torch.zeros(1, length, dim), state)
    return places[0]


def varying_directions(places: Tensor) -> Tensor:
    """Orthonormal rows [K, D] that span nearly all that the rows of float [S, D] differ by; none where they are equal."""
    _, lengths, directions = torch.linalg.svd(places - places.mean(dim=0), full_matrices=False)
    energy = lengths.square().cumsum(0)
    count = int((energy < POSITION_ENERGY * energy[-1]).sum()) + 1 if energy[-1] > 0 else 0
    varying: Tensor = directions[:count]
    return varying


def initialise_projection(encoder: Encoder, guess_dim: int, hidden: Tensor) -> None:
    """Turn the meaning part into the vector of a text, keeping its angles; leave out the guessing part and `hidden`."""
    dim = encoder.config.dim
    turn, _ = torch.linalg.qr(torch.randn(dim, dim - guess_dim))  # orthonormal columns
    projection = encoder.dense[0].get_parameter("weight")  # in every recipe
    projection.zero_()
    projection[:, guess_dim:] = turn - turn @ hidden.T @ hidden


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


def initialise_head(head: MaskedTokenHead, encoder: Encoder, guess_dim: int) -> None:
    """Scale the head's norm so that logits start at variance 1, whatever the size of the embeddings they are read by."""
    nn.init.constant_(head.norm.weight, 1 / (guess_deviation(encoder, guess_dim) * math.sqrt(guess_dim)))
