"""The encoder: token embeddings, segments, positions, N blocks, pooling. Read from here downwards."""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor, nn

from model.block import Block
from model.config import EncoderConfig
from model.norms import build_norm
from model.pooling import POOLING, unit_length
from model.positions import build_positions


@dataclasses.dataclass(frozen=True)
class EncoderOutput:
    """What one forward pass yields. B texts, S tokens, D wide, H heads, L layers."""

    pooled: Tensor  # [B, D] float
    tokens: Tensor  # [B, S, D] float; after the last norm; zeros at padding
    hidden: tuple[Tensor, ...]  # L + 1 of [B, S, D]: the embeddings, then each block's output (before the last norm)
    attention: tuple[Tensor, ...]  # L of [B, H, S, S], rows are queries; empty where the fused kernel was used
    scores: tuple[Tensor, ...]  # the same before the softmax; MASKED_SCORE at invisible keys


class Encoder(nn.Module):
    """A Transformer encoder (Vaswani et al. 2017) built from an EncoderConfig, bidirectional unless that says causal."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.dim)
        self.embedding_scale = math.sqrt(config.dim) if config.scale_embeddings else 1.0
        self.segment_embedding = nn.Embedding(config.segments, config.dim) if config.segments else None
        self.positions = build_positions(config)
        # Post-norm blocks expect a normed input; pre-norm blocks leave the stream un-normed, so a norm follows the last.
        self.embedding_norm = build_norm(config) if config.norm == "post" else nn.Identity()
        self.dropout = nn.Dropout(config.embedding_dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.final_norm = build_norm(config) if config.norm == "pre" and config.final_norm else nn.Identity()
        self.projection = nn.Linear(config.dim, config.dim, bias=False) if config.projection else None

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        head_mask: Tensor | None = None,
        fused: bool = True,
    ) -> EncoderOutput:
        """Encode a batch of token ids.

        Args:
            ids: int64 [B, S].
            mask: bool or int64 [B, S]; nonzero for a token, zero for padding. None: no padding.
            positions: int64 [B, S] or [1, S], each in 0 .. config.max_length-1; None: 0 .. S-1.
            segments: int64 [B, S], each in 0 .. config.segments-1; None: zeros. Refused by a model that knows none.
            head_mask: float [B, L, H], by which what each head contributes is multiplied: 0 removes it. None: ones.
            fused: False to compute attention in plain operations and return its weights.

        Raises:
            ValueError: S is beyond config.max_length, or there are segments that the model does not know.
        """
        length = ids.shape[1]
        if not torch.compiler.is_compiling() and length > self.config.max_length:
            raise ValueError(f"{length} tokens are more than max_length {self.config.max_length}; shorten the text")
        keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0  # [B, S]
        visible = self.visible(keep)
        if positions is None:
            positions = torch.arange(length, device=ids.device).unsqueeze(0)  # [1, S]
        state = self.positions.prepare(positions)
        x = self.positions.embed(self.embed(ids, segments), state)
        x = self.dropout(self.embedding_norm(x))
        hidden, attention, scores = [x], [], []
        for layer, block in enumerate(self.blocks):
            of_layer = None if head_mask is None else head_mask[:, layer]  # [B, H]
            x, maps = block(x, visible, self.positions, state, head_mask=of_layer, fused=fused)
            hidden.append(x)
            if maps is not None:
                attention.append(maps.weights)
                scores.append(maps.scores)
        tokens = self.final_norm(x) * keep.unsqueeze(-1).to(x.dtype)
        return EncoderOutput(self.pool(tokens, keep), tokens, tuple(hidden), tuple(attention), tuple(scores))

    def visible(self, keep: Tensor) -> Tensor:
        """Which keys a query sees: all tokens of its text, or those up to itself. Bool [B, S] -> [B, 1, 1 or S, S]."""
        visible = keep[:, None, None, :]
        if not self.config.causal:
            return visible
        places = torch.arange(keep.shape[1], device=keep.device)
        return visible & (places <= places[:, None])

    def embed(self, ids: Tensor, segments: Tensor | None) -> Tensor:
        """int64 [B, S], int64 [B, S] or None -> [B, S, D], before positions."""
        x: Tensor = self.embedding(ids) * self.embedding_scale
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(torch.zeros_like(ids) if segments is None else segments)
        elif segments is not None:
            raise ValueError("segments are given, but the model's config has segments 0; leave them out")
        return x

    def pool(self, tokens: Tensor, keep: Tensor) -> Tensor:
        """[B, S, D], bool [B, S] -> [B, D], as the config says."""
        pooled = POOLING[self.config.pooling](tokens, keep)
        if self.projection is not None:
            pooled = self.projection(pooled)
        return unit_length(pooled) if self.config.normalize else pooled
