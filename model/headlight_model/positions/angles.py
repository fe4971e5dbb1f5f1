"""Sine and cosine of position times frequency, exact at any distance.

Angles p * theta_i reach thousands of radians, where a float32 product has lost every digit that
sine and cosine need. So no angle is ever multiplied out in float32: sine and cosine of the coarse
part and of the fine part of a position are tabulated from float64 and joined by the addition
theorem, which keeps both within 2e-7 of the float64 value at any position the tables span.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

# Positions per coarse step; two tables of ~sqrt(max_length) rows instead of one of max_length.
FINE = 256


def inverse_wavelengths(width: int, base: float) -> Tensor:
    """Return base^(-2i/width) in radians per position: float64 [ceil(width/2)].

    i runs over 0 .. ceil(width/2)-1.

    Pair i has the wavelength 2 pi base^(2i/width) positions; the low dimensions oscillate fastest
    (Vaswani et al. 2017, section 3.5).
    """
    pairs = torch.arange((width + 1) // 2, dtype=torch.float64)
    return torch.pow(torch.tensor(base, dtype=torch.float64), -2.0 * pairs / width)


class Angles(nn.Module):
    """Tables of cos and sin of p * frequency.

    Exact to float32 rounding for p in 0 .. max_length-1.
    """

    coarse_cos: Tensor
    coarse_sin: Tensor
    fine_cos: Tensor
    fine_sin: Tensor

    def __init__(self, frequencies: Tensor, max_length: int) -> None:
        super().__init__()
        steps = -(-max_length // FINE)
        for name, positions in (
            ("coarse", torch.arange(steps, dtype=torch.float64) * FINE),
            ("fine", torch.arange(FINE, dtype=torch.float64)),
        ):
            angles = positions[:, None] * frequencies[None, :]  # [rows, pairs] float64
            # Not persistent: they are computed, so no checkpoint holds them.
            self.register_buffer(f"{name}_cos", angles.cos().float(), persistent=False)
            self.register_buffer(f"{name}_sin", angles.sin().float(), persistent=False)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cos and sin at int64 positions [B or 1, S]: each float32 [B or 1, S, pairs]."""
        coarse = positions // FINE
        fine = positions - coarse * FINE
        cos_a, sin_a = (
            functional.embedding(coarse, self.coarse_cos),
            functional.embedding(coarse, self.coarse_sin),
        )
        cos_b, sin_b = (
            functional.embedding(fine, self.fine_cos),
            functional.embedding(fine, self.fine_sin),
        )
        return cos_a * cos_b - sin_a * sin_b, sin_a * cos_b + cos_a * sin_b
