"""Norms of the residual stream."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headlight_model.config import EncoderConfig


class RMSNorm(nn.Module):
    """RMSNorm: g * x / sqrt(mean(x^2) + eps), no mean subtraction, no bias.

    After Zhang and Sennrich 2019. Written out, because ONNX has the operator only from opset 23 on.
    """

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + self.eps) * self.weight


def build_norm(config: EncoderConfig, width: int) -> nn.Module:
    """Return the norm that config.norm_type names, over the last axis, which is `width` wide."""
    if config.norm_type == "rms":
        return RMSNorm(width, config.norm_eps)
    return nn.LayerNorm(width, eps=config.norm_eps, bias=config.norm_bias)
