"""Sinusoidal positions as a plain table, and the parts that the scheme shares with it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headlight_model.positions.angles import Angles, inverse_wavelengths


def positional_encoding(length: int, dim: int, base: float = 10000.0) -> Tensor:
    """Return the sinusoidal table of Vaswani et al. 2017, section 3.5: float32 [length, dim].

    PE(p, 2i) = sin(p / base^(2i/dim)) and PE(p, 2i+1) = cos(p / base^(2i/dim)) for the positions
    p = 0 .. length-1. If dim is odd, the last column is a sine. Each value is within 2e-7 of the
    float64 formula at any position. The scheme "sinusoidal" of an encoder adds exactly these rows.

    Args:
        length: positions; 0 gives an empty table.
        dim: width of a row, at least 1.
        base: of the wavelengths, which run from 2 pi to nearly 2 pi base positions.

    Raises:
        ValueError: an argument is out of range; the message names it.
    """
    if length < 0:
        raise ValueError(f"length is {length}; it must be at least 0")
    if dim < 1:
        raise ValueError(f"dim is {dim}; it must be at least 1")
    if not 0 < base < math.inf:
        raise ValueError(f"base is {base}; it must be above 0 and finite")
    return sinusoidal_rows(sinusoidal_angles(length, dim, base), torch.arange(length), dim)


def sinusoidal_angles(length: int, dim: int, base: float) -> Angles:
    """Return the cosines and sines of all pairs of columns at positions 0 .. length-1."""
    return Angles(inverse_wavelengths(dim, base), length)


def sinusoidal_rows(angles: Angles, positions: Tensor, dim: int) -> Tensor:
    """Return the rows of the table at int64 positions [...]: float32 [..., dim]."""
    cos, sin = angles(positions)  # each [..., pairs]
    # sin, cos, sin, cos, ...; an odd width has one cosine fewer.
    return torch.stack((sin, cos), dim=-1).flatten(-2)[..., :dim]
