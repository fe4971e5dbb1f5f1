"""Train, export and serve a hand-written encoder, and compare the service with PyTorch.

    python -m examples.bring_your_own.hand_written

Attention has the matrices W_q, W_k, W_v and W_o. Each sublayer is norm(x + f(x)), without a norm
of the embeddings. Positions are sinusoidal. The exit code is 1 if the service differs from PyTorch.
"""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.bring_your_own.serve_and_compare import LENGTH, VOCABULARY, run
from headlight_model.config import EncoderConfig
from headlight_model.positions.sinusoidal import positional_encoding

DIM, HEADS, LAYERS, FFN = 64, 4, 2, 128


def split(x: Tensor) -> Tensor:
    """Split the last axis into heads: [B, S, D] -> [B, H, S, d]."""
    return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


class Attention(nn.Module):
    """Multi-head self-attention: softmax(Q K^T / sqrt(d)) V for each head, then W_o."""

    def __init__(self) -> None:
        super().__init__()
        self.W_q, self.W_k = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)
        self.W_v, self.W_o = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mixed values [B, S, D] and the weights [B, H, S, S] of [B, S, D]."""
        scores = split(self.W_q(x)) @ split(self.W_k(x)).transpose(-1, -2)
        weights = (scores / math.sqrt(DIM // HEADS)).softmax(dim=-1)
        mixed = weights @ split(self.W_v(x))  # [B, H, S, d]
        return self.W_o(mixed.transpose(1, 2).flatten(2)), weights


class Block(nn.Module):
    """Post-norm block: x = norm(x + attention(x)), then x = norm(x + feed-forward(x))."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.norm_1, self.norm_2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.expand, self.contract = nn.Linear(DIM, FFN), nn.Linear(FFN, DIM)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output [B, S, D] and the attention weights [B, H, S, S] of [B, S, D]."""
        mixed, weights = self.attention(x)
        x = self.norm_1(x + mixed)
        return self.norm_2(x + self.contract(functional.gelu(self.expand(x)))), weights


class Reverser(nn.Module):
    """Letter table, sinusoidal positions, the blocks, and a head that names letters."""

    positions: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, DIM)
        self.register_buffer("positions", positional_encoding(LENGTH, DIM), persistent=False)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(DIM, VOCABULARY)  # not served: it reads the served token vectors

    def encode(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return token vectors [B, S, D] and attention [B, L, H, S, S] of int64 [B, S]."""
        x, maps = self.words(ids) + self.positions[: ids.shape[1]], []
        for block in self.blocks:
            x, weights = block(x)
            maps.append(weights)
        return x, torch.stack(maps, dim=1)

    def forward(self, ids: Tensor) -> Tensor:
        """Return token vectors: int64 [B, S] -> float32 [B, S, D]."""
        return self.encode(ids)[0]

    def attention(self, ids: Tensor) -> Tensor:
        """Return the weights of all layers and heads: int64 [B, S] -> float32 [B, L, H, S, S]."""
        return self.encode(ids)[1]


CONFIG = EncoderConfig(
    vocab_size=VOCABULARY, dim=DIM, heads=HEADS, layers=LAYERS, ffn_dim=FFN, activation="gelu",
    norm="post", first_norm=False,  # blocks as in Vaswani et al. 2017: no norm of the embeddings
    positions="sinusoidal", pooling="mean", normalize=False,
    trained_length=LENGTH, max_length=LENGTH,
)  # fmt: skip

NAMES = {
    "words": "embedding",
    # The rows of Q, K and V are joined in this order.
    **dict.fromkeys(("attention.W_q", "attention.W_k", "attention.W_v"), "attention.project_in"),
    "attention.W_o": "attention.project_out",
    "norm_1": "attention_norm",
    "expand": "feed_forward.up",
    "contract": "feed_forward.down",
    "norm_2": "feed_forward_norm",
    "head": None,
}


if __name__ == "__main__":
    sys.exit(run(Reverser, CONFIG, NAMES))
