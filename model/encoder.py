"""The encoder: token embeddings, positions, N blocks, pooling. Read from here downwards."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor, nn

from model.block import Block
from model.config import EncoderConfig
from model.pooling import POOLING, unit_length
from model.positions import build_positions


@dataclasses.dataclass(frozen=True)
class EncoderOutput:
    """What one forward pass yields. B texts, S tokens, D wide, H heads, L layers."""

    pooled: Tensor  # [B, D] float
    tokens: Tensor  # [B, S, D] float; after the last norm; zeros at padding
    hidden: tuple[Tensor, ...]  # L + 1 of [B, S, D]: the embeddings, then each block's output (before the last norm)
    attention: tuple[Tensor, ...]  # L of [B, H, S, S], rows are queries; empty where the fused kernel was used


class Encoder(nn.Module):
    """A bidirectional Transformer encoder (Vaswani et al. 2017) built from an EncoderConfig."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.embedding_scale = math.sqrt(config.dim) if config.scale_embeddings else 1.0
        self.positions = build_positions(config)
        # Post-norm blocks expect a normed input; pre-norm blocks leave the stream un-normed and need a norm at the end.
        self.embedding_norm = nn.LayerNorm(config.dim, eps=config.norm_eps) if config.norm == "post" else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = nn.LayerNorm(config.dim, eps=config.norm_eps) if config.norm == "pre" else nn.Identity()

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, positions: Tensor | None = None, *, fused: bool = True
    ) -> EncoderOutput:
        """Encode a batch of token ids.

        Args:
            ids: int64 [B, S].
            mask: bool or int64 [B, S]; nonzero for a token, zero for padding. None: no padding.
            positions: int64 [B, S] or [1, S], each in 0 .. config.max_length-1; None: 0 .. S-1.
            fused: False to compute attention in plain operations and return its weights.

        Raises:
            ValueError: S is beyond config.max_length.
        """
        length = ids.shape[1]
        if not torch.compiler.is_compiling() and length > self.config.max_length:
            raise ValueError(f"{length} tokens are more than max_length {self.config.max_length}; shorten the text")
        keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0  # [B, S]
        visible = keep[:, None, None, :]  # [B, 1, 1, S]: every query of a text sees all its tokens
        if positions is None:
            positions = torch.arange(length, device=ids.device).unsqueeze(0)  # [1, S]
        state = self.positions.prepare(positions)
        x = self.positions.embed(self.embedding(ids) * self.embedding_scale, state)
        x = self.dropout(self.embedding_norm(x))
        hidden, attention = [x], []
        for block in self.blocks:
            x, weights = block(x, visible, self.positions, state, fused=fused)
            hidden.append(x)
            if weights is not None:
                attention.append(weights)
        tokens = self.final_norm(x) * keep.unsqueeze(-1).to(x.dtype)
        return EncoderOutput(self.pool(tokens, keep), tokens, tuple(hidden), tuple(attention))

    def pool(self, tokens: Tensor, keep: Tensor) -> Tensor:
        """[B, S, D], bool [B, S] -> [B, D], as the config says."""
        pooled = POOLING[self.config.pooling](tokens, keep)
        return unit_length(pooled) if self.config.normalize else pooled
