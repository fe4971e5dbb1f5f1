"""Train, export and serve a `torch.nn.TransformerEncoder`, and compare the service with PyTorch.

    python -m examples.bring_your_own.transformer_encoder

The blocks are post-norm, and the embeddings have no norm of their own. Positions are sinusoidal.
The exit code is 1 if the service differs from PyTorch.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from examples.bring_your_own.serve_and_compare import LENGTH, VOCABULARY, run
from headlight_model.config import EncoderConfig
from headlight_model.positions.sinusoidal import positional_encoding


class Reverser(nn.Module):
    """Letter table, sinusoidal positions, two post-norm blocks, and a head that names letters."""

    positions: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 64)
        self.register_buffer("positions", positional_encoding(LENGTH, 64), persistent=False)
        layer = nn.TransformerEncoderLayer(
            64, nhead=4, dim_feedforward=128, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(64, VOCABULARY)  # not served: it reads the served token vectors

    def embed(self, ids: Tensor) -> Tensor:
        """Return what the first block reads: int64 [B, S] -> float32 [B, S, D]."""
        embedded: Tensor = self.words(ids) + self.positions[: ids.shape[1]]
        return embedded

    def forward(self, ids: Tensor) -> Tensor:
        """Return token vectors: int64 [B, S] -> float32 [B, S, D]."""
        vectors: Tensor = self.encoder(self.embed(ids))
        return vectors

    def attention(self, ids: Tensor) -> Tensor:
        """Return the weights of all layers and heads: int64 [B, S] -> float32 [B, L, H, S, S]."""
        x, maps = self.embed(ids), []
        for layer in self.encoder.layers:
            maps.append(layer.self_attn(x, x, x, average_attn_weights=False)[1])
            x = layer(x)
        return torch.stack(maps, dim=1)


CONFIG = EncoderConfig(
    vocab_size=VOCABULARY, dim=64, heads=4, layers=2, ffn_dim=128, activation="relu",
    norm="post", first_norm=False,  # blocks as in Vaswani et al. 2017: no norm of the embeddings
    positions="sinusoidal", pooling="mean", normalize=False,
    trained_length=LENGTH, max_length=LENGTH,
)  # fmt: skip

NAMES = {
    "words.": "embedding.",
    "encoder.layers.": "blocks.",
    "self_attn.in_proj_": "attention.project_in.",
    "self_attn.out_proj.": "attention.project_out.",
    "linear1.": "feed_forward.up.",
    "linear2.": "feed_forward.down.",
    "norm1.": "attention_norm.",
    "norm2.": "feed_forward_norm.",
    "head.": None,
}


if __name__ == "__main__":
    sys.exit(run(Reverser, CONFIG, NAMES))
