"""Means with 95 % bootstrap intervals, as rows of the report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from headlight_model.evaluate.ranking import bootstrap


class Figure(TypedDict):
    """A mean and the ends of its interval."""

    mean: float
    low: float
    high: float


def figure(values: Sequence[float], groups: Sequence[str] | None = None) -> Figure:
    """Return the mean of values, one for each case; `groups`: draw whole groups of cases."""
    found = dataclasses.asdict(bootstrap(np.array(values, np.float64), groups))
    return Figure(**{name: round(value, 4) for name, value in found.items()})  # type: ignore[typeddict-item]


def shown(found: Figure, sign: str = "") -> str:
    """Return a figure as a cell of a table; `sign` "+": a difference."""
    low, high = (f"{found[end]:{sign}.3f}" for end in ("low", "high"))  # type: ignore[literal-required]
    return f"{found['mean']:{sign}.3f} [{low}, {high}]"
