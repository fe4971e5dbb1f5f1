"""Pictures: throughput of the contestants, and behaviour under overload."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from bench.serving.workloads import BATCHES

mpl.use("Agg")  # no window

from bench.serving.workloads import BULK, ONE, SINGLES

COLOURS = {
    "Headlight": "#1b6ca8",
    "engine": "#8fbcd9",
    "sentence": "#c9772b",
    "fastembed": "#4a8f4a",
    "infinity": "#7a5195",
    "vLLM": "#b0413e",
    "plain loop": "#8a8a8a",
}
HATCHES = {"fp32": "", "bf16": "//", "int8": "xx"}


def colour(name: str) -> str:
    """Return the colour of a contestant's family."""
    return next(value for family, value in COLOURS.items() if name.startswith(family))


def throughput(run: dict[str, Any], path: Path) -> None:
    """Draw bars by workload, one panel each; bf16 is hatched, int8 crossed."""
    workloads = [name for name in (ONE, SINGLES, BATCHES, BULK) if name in run["measured"]]
    names = list(run["contestants"])
    figure, axes = plt.subplots(
        1,
        len(workloads),
        figsize=(3.6 * len(workloads) + 2.5, 0.42 * len(names) + 1.6),
        sharey=True,
    )
    for axis, workload in zip(axes, workloads, strict=True):
        measured = run["measured"][workload]
        for at, name in enumerate(names):
            if name not in measured:
                continue
            value = measured[name]["texts_per_s"]
            hatch = HATCHES[run["contestants"][name]["precision"]]
            axis.barh(at, value, color=colour(name), hatch=hatch, edgecolor="white")
            axis.text(value, at, f" {value:.0f}", va="center", fontsize=8)
        axis.set_title(workload, fontsize=10)
        axis.set_xlabel("texts/s")
        axis.margins(x=0.18)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    axes[0].invert_yaxis()
    figure.suptitle(f"{run['machine'].split(';')[0]}; bf16 hatched, int8 crossed", fontsize=9)
    save(figure, path)


def open_loop(run: dict[str, Any], path: Path) -> None:
    """Draw goodput and latency over offered load."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    lines = dict.fromkeys((one["name"], one["group"]) for one in run["open"])
    for at, (name, group) in enumerate(lines):
        points = [one for one in run["open"] if (one["name"], one["group"]) == (name, group)]
        offered = [100 * one["share"] for one in points]
        label = f"{name}, {'singles' if group == 1 else f'{group} texts a request'}"
        # Both lines of one server in one colour, in all panels.
        style = f"C{at // 2}" + ("o-" if group == 1 else "s--")
        axes[0].plot(
            offered,
            [100 * one["goodput_texts_per_s"] / one["capacity"] for one in points],
            style,
            label=label,
        )
        axes[1].plot(offered, [one["p99_ms"] for one in points], style, label=label)
        refused = [
            (x, one["refused_p99_ms"])
            for x, one in zip(offered, points, strict=True)
            if one["refused_p99_ms"]
        ]
        if refused:
            axes[2].plot(*zip(*refused, strict=True), style, label=label)
    titles = ("goodput, % of capacity", "p99 of answers, ms", "p99 of refusals, ms")
    for axis, title in zip(axes, titles, strict=True):
        decorate(axis, title)
    axes[0].legend(fontsize=8)
    save(figure, path)


def decorate(axis: Axes, title: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("offered load, % of capacity")
    axis.set_xlim(40, 210)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)


def save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=110, bbox_inches="tight")  # with a legend below the axes
    plt.close(figure)


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
