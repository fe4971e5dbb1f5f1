"""One picture: tokens a second over length, a panel for each encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # no window
from matplotlib import pyplot as plt

from bench.gpu.criteria import milliseconds
from bench.gpu.report import CONTESTANTS
from bench.serving.plots import save

FASTEST = ("fp16", "bf16", "fp32")  # the first measured one is shown


def throughput(run: dict[str, Any], path: Path) -> None:
    """Draw batches of one length, logarithmic both ways."""
    rows = [row for row in run.get("speed", []) if row.get("kind") == "length"]
    sizes = list(dict.fromkeys(row["size"] for row in rows)) or [""]
    figure, axes = plt.subplots(1, len(sizes), figsize=(5.2 * len(sizes), 4.2), squeeze=False)
    for axis, size in zip(axes[0], sizes, strict=True):
        mine = [row for row in rows if row["size"] == size]
        precision = next(
            (one for one in FASTEST if any(row["precision"] == one for row in mine)), ""
        )
        for at, name in enumerate(CONTESTANTS):
            points = sorted(
                (row["length"], row["tokens"] / ms)
                for row in mine
                if row["precision"] == precision and (ms := milliseconds(row, name))
            )
            if points:
                axis.loglog(*zip(*points, strict=True), "o-", color=f"C{at}", label=name)
        axis.set_title(f"{size}, {precision}" if size else "not measured", fontsize=10)
        axis.set_xlabel("tokens of each text")
        axis.set_ylabel("thousand tokens/s")
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    if axes[0][0].has_data():
        axes[0][0].legend(fontsize=7)
    name = (
        "A REHEARSAL ON A CPU: says nothing of a GPU" if run["rehearsal"] else run["device"]["name"]
    )
    figure.suptitle(name, fontsize=9)
    save(figure, path)
