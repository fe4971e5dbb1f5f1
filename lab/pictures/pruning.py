"""Plot of the accuracy of reversal while heads are removed. Drawn from results.json alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from lab.page.comparisons import ORDERS, reversing
from lab.page.figures import Results
from lab.pictures.style import SERIES, band, figure, legend_below, save
from lab.results import Run

DRAWN = {**ORDERS, "most first": "most important first"}


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw it into a folder. Return its path, in a list."""
    made, [row] = figure(1, 4, height=3.2, share_y=True)
    for axes, (name, selected) in zip(row, reversing(results).items(), strict=True):
        plot(axes, selected)
        axes.set_title(name)
        axes.set_xlabel("heads removed")
    row[0].set_ylabel("tokens reversed rightly, %")
    row[0].set_ylim(-2, 104)
    legend_below(made, row[0], len(DRAWN))
    return [save(made, folder / "pruning.png")]


def plot(axes: Axes, selected: list[Run]) -> None:
    """Plot the mean over seeds and orders, and the range over seeds."""
    for (order, label), style in zip(DRAWN.items(), SERIES, strict=False):
        values = np.array([np.mean(run["pruned"][order], axis=0) for run in selected])
        band(axes, range(values.shape[1]), 100 * values, label, style)
        axes.lines[-1].set(markevery=max(1, values.shape[1] // 8))
