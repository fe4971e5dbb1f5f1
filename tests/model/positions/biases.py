"""Biases of a position scheme, which reads neither queries nor keys."""

from __future__ import annotations

import torch
from torch import Tensor

from headlight_model.positions.position_schemes import Positions


def bias_at(scheme: Positions, positions: Tensor, layer: int = 0) -> Tensor:
    """Return the bias for int64 positions [S] -> [1, H, S, S]."""
    unread = torch.zeros(())
    bias = scheme.bias(scheme.prepare(positions[None]), layer, unread, unread)
    assert bias is not None
    return bias
