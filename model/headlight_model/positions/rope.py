"""Rotary frequencies, and their scaling to texts longer than in training.

The scaling is fixed by the config. With "dynamic" scalings, which follow the current length, a
text's vector would depend on the other texts of its batch.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from headlight_model.positions.angles import inverse_wavelengths

KINDS = ("linear", "ntk", "fixed_ntk", "yarn", "llama3")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """Scaling of rotary positions to longer texts.

    Below, f_i = theta^(-2i/d) is the frequency of pair i, and d the rotated width.

    "linear": f_i / factor (Chen et al. 2023, position interpolation).
    "ntk": theta times factor^(d / (d - 2)), so that the slowest pair turns `factor` times slower
    and the fastest as before (bloc97 2023, "NTK-aware"). "fixed_ntk": f_i factor^(-2(i+1)/d), so
    that each pair turns slower, the slowest `factor` times (Su 2023, kexue.fm/archives/9706; "ntk"
    of GTE's models). "yarn": pairs that turn more than
    beta_fast times within trained_length stay, those below beta_slow times are divided by factor,
    those between are interpolated; cos and sin are multiplied by `attention_factor` (Peng et al.
    2023). "llama3": the same with a ramp in wavelengths, between trained_length / high and
    trained_length / low, and no factor on cos and sin (Llama 3.1).

    Raises:
        ValueError: the message names the field and the accepted values.
    """

    kind: str
    factor: float  # how many times longer
    trained_length: int = 0  # tokens, before the scaling; for "yarn" and "llama3"
    beta_fast: float = 32.0  # turns; for "yarn"
    beta_slow: float = 1.0
    attention_factor: float = 0.0  # for "yarn"; 0: 0.1 ln(factor) + 1
    truncate: bool = True  # for "yarn": the ramp begins and ends at whole pairs
    low: float = 1.0  # turns; for "llama3"
    high: float = 4.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"rope_scaling.kind is {self.kind!r}; choose one of {KINDS}")
        if not 1 <= self.factor < math.inf:
            raise ValueError(f"rope_scaling.factor is {self.factor}; it must be at least 1")
        if self.kind in ("yarn", "llama3") and self.trained_length < 1:
            raise ValueError(
                f"rope_scaling.trained_length is {self.trained_length}; {self.kind} needs at "
                "least 1"
            )
        if not 0 < self.beta_slow <= self.beta_fast or not 0 < self.low < self.high:
            raise ValueError(
                "rope_scaling: 0 < beta_slow <= beta_fast and 0 < low < high must hold"
            )
        if not 0 <= self.attention_factor < math.inf:
            raise ValueError(
                f"rope_scaling.attention_factor is {self.attention_factor}; it must be at least 0"
            )

    @property
    def amplitude(self) -> float:
        """Factor on cos and sin."""
        if self.kind != "yarn":
            return 1.0
        return self.attention_factor or 0.1 * math.log(self.factor) + 1.0


def rope_frequencies(width: int, theta: float, scaling: RopeScaling | None) -> Tensor:
    """Return radians per position of each pair of `width` rotated dimensions.

    Float64 [width / 2].
    """
    if scaling is None:
        return inverse_wavelengths(width, theta)
    if scaling.kind == "ntk":
        # A single pair is both the fastest and the slowest: its frequency stays.
        return inverse_wavelengths(
            width, theta * scaling.factor ** (width / (width - 2)) if width > 2 else theta
        )
    plain = inverse_wavelengths(width, theta)
    if scaling.kind == "fixed_ntk":
        pairs = torch.arange(1, width // 2 + 1, dtype=torch.float64)
        return plain * scaling.factor ** (-2 * pairs / width)
    if scaling.kind == "linear":
        return plain / scaling.factor
    kept = (
        _unscaled_by_yarn(width, theta, scaling)
        if scaling.kind == "yarn"
        else _unscaled_by_llama3(plain, scaling)
    )
    return plain * kept + plain / scaling.factor * (1 - kept)


def _unscaled_by_yarn(width: int, theta: float, scaling: RopeScaling) -> Tensor:
    """Return the share of each pair's own frequency that YaRN keeps.

    Float64 [width / 2], 1 at the fastest, falling to 0.
    """

    def pair_turning(turns: float) -> float:
        return (
            width * math.log(scaling.trained_length / (turns * 2 * math.pi)) / (2 * math.log(theta))
        )

    begin, end = pair_turning(scaling.beta_fast), pair_turning(scaling.beta_slow)
    if scaling.truncate:
        begin, end = math.floor(begin), math.ceil(end)
    begin, end = max(begin, 0), min(end, width - 1)
    if begin == end:
        end += 0.001  # makes the ramp a step
    pairs = torch.arange(width // 2, dtype=torch.float64)
    return 1 - ((pairs - begin) / (end - begin)).clamp(0, 1)


def _unscaled_by_llama3(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Return the same for "llama3", from the turns of each pair within the training length."""
    turns = scaling.trained_length * frequencies / (2 * math.pi)
    return ((turns - scaling.low) / (scaling.high - scaling.low)).clamp(0, 1)
