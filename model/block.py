"""One Transformer block: attention and a feed-forward network, each inside a residual connection and a layer norm."""

from __future__ import annotations

from torch import Tensor, nn

from model.attention import MultiHeadAttention
from model.config import EncoderConfig
from model.positions import Positions


class FeedForward(nn.Module):
    """Linear(D, F), GELU (the exact erf form), Linear(F, D), at each position alone."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.dim, config.ffn_dim)
        self.activation = nn.GELU()
        self.down = nn.Linear(config.ffn_dim, config.dim)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, D] -> [B, S, D]."""
        out: Tensor = self.down(self.activation(self.up(x)))  # [B, S, F] in between
        return out


class Block(nn.Module):
    """Pre-norm: x + f(LN(x)). Post-norm: LN(x + f(x)). f is attention, then the feed-forward network."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.attention = MultiHeadAttention(config)
        self.attention_norm = nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, visible: Tensor | None, positions: Positions, state: tuple[Tensor, ...], *, fused: bool
    ) -> tuple[Tensor, Tensor | None]:
        """x: [B, S, D] -> [B, S, D] and the attention weights [B, H, S, S] (None where fused); see there."""
        source = self.attention_norm(x) if self.pre_norm else x
        mixed, weights = self.attention(source, visible, positions, state, fused=fused)
        x = x + self.dropout(mixed)
        if self.pre_norm:
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x))), weights
        x = self.attention_norm(x)
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x))), weights
