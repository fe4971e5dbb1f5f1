"""Transformer block.

Attention and a feed-forward network, each inside a residual connection and a norm.
"""

from __future__ import annotations

from torch import Tensor, nn

from headlight_model.config import EncoderConfig
from headlight_model.layers.activations import activation
from headlight_model.layers.attention import Maps, MultiHeadAttention
from headlight_model.layers.norms import build_norm
from headlight_model.positions.position_schemes import Positions


class FeedForward(nn.Module):
    """Feed-forward network: Linear(D, F), activation, Linear(F, D), at each position alone.

    Gated, act(gate x) * up x in between (Shazeer 2020).
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.dim, config.ffn_dim, bias=config.ffn_bias)
        self.activation = activation(config.activation)
        self.down = nn.Linear(config.ffn_dim, config.dim, bias=config.ffn_out_bias)
        self.gate = (
            nn.Linear(config.dim, config.ffn_dim, bias=config.ffn_bias)
            if config.ffn == "gated"
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, D] -> [B, S, D]."""
        up = self.up(x)  # [B, S, F]
        out: Tensor = self.down(
            self.activation(up) if self.gate is None else self.activation(self.gate(x)) * up
        )
        return out


class Block(nn.Module):
    """Transformer block: pre-norm x + f(N(x)), post-norm N(x + f(x)), or sandwich x + N(f(N(x))).

    N is a norm; f is attention, then the feed-forward network.
    """

    def __init__(self, config: EncoderConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.adds_positions = layer, config.positions_every_layer
        self.post_norm = config.norm == "post"
        self.attention = MultiHeadAttention(config, layer)
        bare = not self.post_norm and layer == 0 and not config.first_norm
        self.attention_norm = nn.Identity() if bare else build_norm(config, config.dim)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = build_norm(config, config.dim)
        sandwich = config.norm == "sandwich"
        self.attention_out_norm = build_norm(config, config.dim) if sandwich else nn.Identity()
        self.feed_forward_out_norm = build_norm(config, config.dim) if sandwich else nn.Identity()
        self.dropout = nn.Dropout(config.dropout)

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
        """Apply the block: [B, S, D] -> [B, S, D] and the maps [B, H, S, S] (None if fused).

        Arguments as in MultiHeadAttention.forward.
        """
        if self.adds_positions:
            x = positions.embed(x, state, self.layer)
        source = x if self.post_norm else self.attention_norm(x)
        mixed, maps = self.attention(
            source, visible, positions, state, head_mask=head_mask, fused=fused
        )
        x = x + self.dropout(self.attention_out_norm(mixed))
        if self.post_norm:
            x = self.attention_norm(x)
            return self.feed_forward_norm(x + self.dropout(self.feed_forward(x))), maps
        added = self.feed_forward_out_norm(self.feed_forward(self.feed_forward_norm(x)))
        return x + self.dropout(added), maps
