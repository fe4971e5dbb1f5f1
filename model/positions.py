"""How an encoder knows where a token stands. One small class a scheme, chosen by name through POSITIONS.

Angles p * theta_i reach thousands of radians, where a float32 product has lost every digit that sine and cosine need.
So no angle is ever multiplied out in float32: sine and cosine of the coarse part and of the fine part of a position are
tabulated from float64 and joined by the addition theorem, which keeps both within 2e-7 of the float64 value at any
position the tables span.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from model.config import EncoderConfig

FINE = 256  # positions per coarse step; two tables of ~sqrt(max_length) rows instead of one of max_length


def inverse_wavelengths(width: int, base: float) -> Tensor:
    """base^(-2i/width) for i in 0 .. ceil(width/2)-1, float64 [ceil(width/2)]: radians per position.

    Pair i has the wavelength 2 pi base^(2i/width) positions; the low dimensions oscillate fastest (Vaswani et al. 2017,
    section 3.5).
    """
    pairs = torch.arange((width + 1) // 2, dtype=torch.float64)
    return torch.pow(torch.tensor(base, dtype=torch.float64), -2.0 * pairs / width)


class Angles(nn.Module):
    """cos and sin of p * frequency, exact to float32 rounding for every position p in 0 .. max_length-1."""

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
            # Not persistent: computable, so no checkpoint carries them.
            self.register_buffer(f"{name}_cos", angles.cos().float(), persistent=False)
            self.register_buffer(f"{name}_sin", angles.sin().float(), persistent=False)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions: int64 [B or 1, S] -> cos, sin: each float32 [B or 1, S, pairs]."""
        coarse = positions // FINE
        fine = positions - coarse * FINE
        cos_a, sin_a = functional.embedding(coarse, self.coarse_cos), functional.embedding(coarse, self.coarse_sin)
        cos_b, sin_b = functional.embedding(fine, self.fine_cos), functional.embedding(fine, self.fine_sin)
        return cos_a * cos_b - sin_a * sin_b, sin_a * cos_b + cos_a * sin_b


class Positions(nn.Module):
    """The seam between the encoder and a scheme. The base class does nothing at the three places where one may act."""

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        """Computed once per forward from int64 positions [B or 1, S], and handed to the two methods below."""
        return ()

    def embed(self, x: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        """Change the token embeddings [B, S, D]."""
        return x

    def rotate(self, heads: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        """Change queries or keys [B, H, S, d]."""
        return heads


class Sinusoidal(Positions):
    """Adds PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos of the same (Vaswani et al. 2017, 3.5). Any width."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.width = config.dim
        self.angles = Angles(inverse_wavelengths(config.dim, 10000.0), config.max_length)

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        cos, sin = self.angles(positions)  # [B, S, pairs]
        table = torch.stack((sin, cos), dim=-1).flatten(-2)  # [B, S, 2 pairs]: sin, cos, sin, cos, ...
        return (table[..., : self.width],)  # an odd width has one cosine fewer

    def embed(self, x: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        return x + state[0].to(x.dtype)


class Rope(Positions):
    """Turns the pairs (i, i + d/2) of each query and key by p * theta^(-2i/d) (Su et al. 2021, the half-split layout).

    The score of a query and a key then depends on their distance only.
    """

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        if config.head_dim % 2:
            raise ValueError(f"rope turns pairs of dimensions, so dim / heads must be even; it is {config.head_dim}")
        self.angles = Angles(inverse_wavelengths(config.head_dim, config.rope_theta), config.max_length)

    def prepare(self, positions: Tensor) -> tuple[Tensor, ...]:
        cos, sin = self.angles(positions)
        return cos[:, None], sin[:, None]  # [B, 1, S, d/2], broadcast over heads

    def rotate(self, heads: Tensor, state: tuple[Tensor, ...]) -> Tensor:
        cos, sin = state[0].to(heads.dtype), state[1].to(heads.dtype)
        first, second = heads.chunk(2, dim=-1)  # each [B, H, S, d/2]
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


POSITIONS: dict[str, type[Sinusoidal] | type[Rope]] = {"sinusoidal": Sinusoidal, "rope": Rope}


def build_positions(config: EncoderConfig) -> Positions:
    """The scheme that config.positions names.

    Raises:
        ValueError: no such scheme; the message lists those there are.
    """
    try:
        return POSITIONS[config.positions](config)
    except KeyError:
        raise ValueError(f"positions is {config.positions!r}; choose one of {sorted(POSITIONS)}") from None
