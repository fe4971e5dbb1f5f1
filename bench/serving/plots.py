"""Pictures: throughput of the contestants, and behaviour under overload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # no window
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench.serving.workloads import BATCHES, BULK, ONE, SINGLES

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
    figure.savefig(path, dpi=110)
    plt.close(figure)
