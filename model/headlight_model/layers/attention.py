"""Scaled dot-product attention and its multi-head form.

The mathematics stands here in plain operations, beside the fused kernel that computes the same
output without materialising the weights. The exported graph, and callers that need the weights,
use the plain form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from headlight_model.config import EncoderConfig
from headlight_model.layers.norms import build_norm
from headlight_model.masking import score_bias
from headlight_model.positions.position_schemes import Positions


class Maps(NamedTuple):
    """Attention maps, [B, H, Q, K] each; rows are queries, columns keys.

    Attributes:
        weights: each row sums to 1, or is all zeros where the query sees no key.
        scores: before the softmax, `bias` added; MASKED_SCORE at a key that the query does not see.
    """

    weights: Tensor
    scores: Tensor


def masked_scores(
    query: Tensor, key: Tensor, visible: Tensor | None, bias: Tensor | None = None
) -> Tensor:
    """Return Q K^T / sqrt(d) + bias, MASKED_SCORE at invisible keys: [B, H, Q, K].

    Arguments as in `attend`.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    added = score_bias(visible, bias, scores.dtype)
    return scores if added is None else scores + added


def sees_any(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 1 where the query sees at least one key, else 0: [..., Q or 1, 1].

    `visible` as in `attend`.
    """
    return visible.any(dim=-1, keepdim=True).to(dtype)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    visible: Tensor | None,
    bias: Tensor | None = None,
    *,
    fused: bool,
) -> tuple[Tensor, Maps | None]:
    """Compute scaled dot-product attention (Vaswani et al. 2017, eq. 1).

    It is softmax(Q K^T / sqrt(d) + bias) V, rows being queries.

    Args:
        query, key, value: [B, H, Q, d], [B, H, K, d], [B, H, K, d] float.
        visible: bool, broadcastable to [B, H, Q, K]; True where the query may look at the key.
            None: everywhere.
        bias: float, broadcastable to [B, H, Q, K]; None: zeros.
        fused: use the kernel that does not materialise the weights.

    Returns:
        Context [B, H, Q, d], zeros for a query that sees no key; and the maps, or None if fused.
    """
    if fused:
        added = score_bias(visible, bias, query.dtype)
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=added)
        return context if visible is None else context * sees_any(visible, context.dtype), None
    scores = masked_scores(query, key, visible, bias)
    weights = scores.softmax(dim=-1)
    context = weights @ value
    if visible is None:
        return context, Maps(weights, scores)
    # Rows without a visible key are zeroed after the product, on d columns instead of K: cheap for
    # a graph that returns no weights.
    seen = sees_any(visible, context.dtype)
    return context * seen, Maps(weights * seen, scores)


class MultiHeadAttention(nn.Module):
    """Multi-head attention: W_o concat_h attend(W_q x, W_k x, W_v x).

    The position scheme may rotate Q and K, and bias the scores.

    With fewer heads of keys and values than of queries, neighbouring query heads share one (Ainslie
    et al. 2023).
    """

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.heads, self.key_heads = config.heads, config.key_heads
        self.head_dim = config.head_dim
        self.widths = [
            count * config.head_dim for count in (config.heads, config.key_heads, config.key_heads)
        ]
        # Q, K and V in one product: rows [Q; K; V].
        self.project_in = nn.Linear(config.dim, sum(self.widths), bias=config.attention_bias)
        self.project_out = nn.Linear(self.widths[0], config.dim, bias=config.attention_out_bias)
        normed = config.qk_norm == "head"
        self.query_norm = build_norm(config, config.head_dim) if normed else nn.Identity()
        self.key_norm = build_norm(config, config.head_dim) if normed else nn.Identity()
        self.turn_values = config.rope_values

    def forward(
        self,
        x: Tensor,
        visible: Tensor | None,
        positions: Positions,
        state: tuple[Tensor, ...],
        *,
        head_mask: Tensor | None = None,
        fused: bool,
    ) -> tuple[Tensor, Maps | None]:
        """Compute self-attention over x.

        Args:
            x: [B, S, D] float.
            visible: bool, broadcastable to [B, H, S, S].
            positions: the encoder's position scheme; `state` is what its `prepare` returned for
                this sequence.
            head_mask: float [B, H], a factor on the output of each head: 0 removes the head (Michel
                et al. 2019, eq. 2). None: ones.
            fused: see `attend`.

        Returns:
            [B, S, D], and the maps [B, H, S, S] or None if fused: of every head, also of a masked
            one.
        """
        # [B, S, H d], and twice [B, S, key heads d]
        query, key, value = self.project_in(x).split(self.widths, dim=-1)
        query, key, value = self._split(query), self._split(key), self._split(value)
        query, key = self.query_norm(query), self.key_norm(key)
        query, key = positions.rotate(query, state), positions.rotate(key, state)
        if self.turn_values:
            value = positions.rotate(value, state)
        key, value = self._share(key), self._share(value)
        bias = positions.bias(state, self.layer, query, key)
        # [B, H, S, d]
        context, maps = attend(query, key, value, visible, bias, fused=fused)
        if head_mask is not None:
            context = context * head_mask[:, :, None, None]
        # [B, S, H d] -> [B, S, D]
        return self.project_out(context.transpose(1, 2).flatten(2)), maps

    def _split(self, joined: Tensor) -> Tensor:
        """Split the heads: [B, S, h d] -> [B, h, S, d]."""
        return joined.view(*joined.shape[:2], -1, self.head_dim).transpose(1, 2)

    def _share(self, heads: Tensor) -> Tensor:
        """Repeat heads of keys or values, so that each query head has one.

        [B, key heads, S, d] -> [B, H, S, d].
        """
        if self.key_heads == self.heads:
            return heads
        group = self.heads // self.key_heads
        return heads[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)
