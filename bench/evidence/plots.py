"""One picture: deletion curves, a panel for each task and group."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # no window
from matplotlib import pyplot as plt

from bench.evidence.deletion import SHARES
from bench.evidence.methods import RANDOM
from bench.serving.plots import save

COLOURS = {
    "late_interaction": "#1b6ca8",
    "occlusion": "#c9772b",
    "attention": "#7a5195",
    RANDOM: "#888888",
}


def deletion_curves(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the mean score over the share of hidden words, with its 95 % intervals."""
    panels = list(dict.fromkeys((row["task"], row["group"]) for row in rows))
    figure, axes = plt.subplots(
        1, len(panels), figsize=(3.6 * len(panels) + 0.8, 3.8), sharey=True, squeeze=False
    )
    shares = [100 * share for share in (0.0, *SHARES)]
    for axis, (task, group) in zip(axes[0], panels, strict=True):
        for row in (each for each in rows if (each["task"], each["group"]) == (task, group)):
            name, points = row["name"], row["curve"]
            low, high = ([point[end] for point in points] for end in ("low", "high"))
            means = [point["mean"] for point in points]
            style = "o--" if name == RANDOM else "o-"
            axis.plot(shares, means, style, color=COLOURS[name], label=name, markersize=4)
            axis.fill_between(shares, low, high, color=COLOURS[name], alpha=0.12, linewidth=0)
        axis.set_title(f"{task}:\n{group}", fontsize=10)
        axis.set_xlabel("words hidden, %")
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("score of the passage")
    axes[0][0].legend(fontsize=8)
    save(figure, path)
