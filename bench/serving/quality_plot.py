"""Picture of speed against quality: throughput at 8 x 32, and neighbours kept."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from bench.serving.plots import colour, save
from bench.serving.workloads import BATCHES

MARKERS = {"fp32": "o", "bf16": "s", "int8": "D"}
STEP = 13  # points between the places that a label may take
ROWS = sorted(range(-14, 21), key=lambda row: (abs(row), -row))


def quality(run: dict[str, Any], path: Path) -> None:
    """Draw a point with a label for each contestant."""
    figure, axis = plt.subplots(figsize=(12, 7.5))
    points = {
        name: (taken["texts_per_s"], 100 * run["vectors"][name]["nearest_kept"])
        for name, taken in run["measured"].get(BATCHES, {}).items()
    }
    for name, (x, y) in points.items():
        marker = MARKERS[run["contestants"][name]["precision"]]
        axis.plot(x, y, marker, color=colour(name), markeredgecolor="white", markersize=9)
    axis.set_xscale("log")
    for which in (axis.xaxis.set_major_formatter, axis.xaxis.set_minor_formatter):
        which("{x:.0f}")
    axis.set_xlabel(f"texts/s at {BATCHES}")
    axis.set_ylabel("ten nearest kept, %")
    axis.set_title("circle: fp32, square: bf16, diamond: int8", fontsize=9)
    low, high = min(y for _, y in points.values()), max(y for _, y in points.values())
    room = max(high - low, 1.0)
    axis.set_ylim(low - 0.3 * room, high + 0.5 * room)  # room for labels
    axis.set_yticks([tick for tick in axis.get_yticks() if low - 0.3 * room < tick <= 100])
    axis.margins(x=0.2)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    label(axis, points)
    save(figure, path)


def label(axis: Axes, points: dict[str, tuple[float, float]]) -> None:
    """Write each name where it covers no point and no other name."""
    at = axis.transData.transform(list(points.values()))
    taken = [Bbox.from_extents(x - 7, y - 7, x + 7, y + 7) for x, y in at]
    for name, point in points.items():
        for row, side in itertools.product(ROWS, ("left", "right")):
            text = annotated(axis, name, point, row, side)
            text.get_window_extent()  # which sets its position
            box = Text.get_window_extent(text)  # without its line
            inside = axis.bbox.x0 < box.x0 and box.x1 < axis.bbox.x1
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            text.remove()


def annotated(axis: Axes, name: str, point: tuple[float, float], row: int, side: str) -> Annotation:
    """Write a name beside a point, some rows above, with a line to it if it is not the nearest."""
    return axis.annotate(
        name,
        point,
        (10 if side == "left" else -10, STEP * row),
        textcoords="offset points",
        fontsize=8,
        ha=side,
        va="center",
        color="0.2",
        arrowprops={"arrowstyle": "-", "color": colour(name), "alpha": 0.5} if row else None,
    )
