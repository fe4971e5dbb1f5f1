"""Means with 95 % bootstrap intervals, as rows of the report."""

from __future__ import annotations

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
    interval = bootstrap(np.array(values, np.float64), groups)
    return {
        "mean": round(interval.mean, 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
    }


def shown(interval: Figure, sign: str = "") -> str:
    """Return a figure as a cell of a table; `sign` "+": a difference."""
    mean, low, high = (
        f"{value:{sign}.3f}" for value in (interval["mean"], interval["low"], interval["high"])
    )
    return f"{mean} [{low}, {high}]"
