"""Linear layers behind the encoder: after pooling, or the head that makes scores."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from headlight_model.config import Dense as DenseConfig
from headlight_model.config import EncoderConfig
from headlight_model.layers.activations import activation
from headlight_model.layers.norms import build_norm


class Dense(nn.Linear):
    """Linear layer, its activation, and perhaps a norm."""

    def __init__(self, inputs: int, config: DenseConfig, norm: nn.Module | None = None) -> None:
        super().__init__(inputs, config.width, bias=config.bias)
        self.activation = activation(config.activation)
        self.norm = nn.Identity() if norm is None else norm

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] -> [..., width]."""
        out: Tensor = self.norm(self.activation(super().forward(x)))
        return out


def build_dense(config: EncoderConfig, layers: Sequence[DenseConfig]) -> nn.ModuleList:
    """Return layers in their order; the first reads vectors as wide as the encoder's."""
    widths = (config.dim, *(layer.width for layer in layers))
    return nn.ModuleList(
        Dense(inputs, layer, build_norm(config, layer.width) if layer.norm else None)
        for inputs, layer in zip(widths, layers, strict=False)
    )
