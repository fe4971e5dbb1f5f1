"""Distance from PyTorch: one definition for the exporter's report, the start-up gate and the tests."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headlight.runtime.encode_items import ItemResult
from headlight.runtime.values import Floats

OUTPUTS = ("pooled", "tokens", "attention", "hidden")
# Rows of a residual stream grow with depth, and rounding with them; attention and pooled rows are bounded by 1.
SCALED_BY_ROW = ("tokens", "hidden")


def distance(output: str, got: Floats, expected: Floats) -> float:
    """max |got - expected|; for tokens and hidden, over max(1, RMS of the expected row). Shapes must be equal; NaN gives infinity."""
    difference = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    if output in SCALED_BY_ROW:
        rms = np.sqrt(np.mean(expected.astype(np.float64) ** 2, axis=-1, keepdims=True))
        difference = difference / np.maximum(1.0, rms)
    worst = float(difference.max(initial=0.0))
    return worst if np.isfinite(worst) else float("inf")


def distances(got: ItemResult, expected: Mapping[str, Floats]) -> dict[str, float]:
    """The distance of every output in `expected`, by name. `expected` has the shapes of ItemResult."""
    return {name: distance(name, getattr(got, name), value) for name, value in expected.items()}
