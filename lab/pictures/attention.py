"""Attention plots of the reversing models: where each head looks, and its importance.

Drawn from results.json alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from lab.experiments.heads import antidiagonal_mass
from lab.experiments.reversal import LENGTH, PRUNED, SHOWN
from lab.pictures.style import GREY, SCHEMES, figure, heat, legend_below, save
from lab.results import select

Results = Mapping[str, Any]
PERCENT = 100.0
CALLED, UNIFORM = 0.5, 0.9  # least share, and least relative entropy; as in `headlight heads`
EPSILON = 1e-12  # a weight of zero has no entropy
TICKS = range(0, LENGTH, 5)  # tokens


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw all of them into a folder. Return their paths."""
    return [maps(results, folder / "attention.png"), heads(results, folder / "heads.png")]


def shown(results: Results, scheme: str) -> Mapping[str, Any]:
    """Return the run of a scheme whose attention is stored."""
    [run] = [run for run in select(results, "reversal", "reverse", scheme) if run["seed"] == SHOWN]
    return run


def reversing_layer(run: Mapping[str, Any]) -> int:
    """Return the layer of the head that attends most to the mirrored token."""
    return int(np.argmax(np.max(run["antidiagonal"], axis=1)))


def mirroring_head(run: Mapping[str, Any]) -> int:
    """Return the index of that head in its layer."""
    return int(np.argmax(run["antidiagonal"][reversing_layer(run)]))


def maps(results: Results, path: Path) -> Path:
    """Draw the attention of four heads on one sequence.

    Rows: learned positions, the same model without them, a model trained without.
    """
    learned, nowhere = shown(results, "learned"), shown(results, "none")
    layer, other = reversing_layer(learned), reversing_layer(nowhere)
    rows = (
        (f"learned positions,\nlayer {layer}", learned["maps"][layer]),
        (f"the same, blinded,\nlayer {layer}", learned["blind_maps"][layer]),
        (f"trained without\npositions, layer {other}", nowhere["maps"][other]),
    )
    made, grid = figure(len(rows), len(learned["maps"][0]), height=7.4, share_x=True, share_y=True)
    for axes_row, (title, weights) in zip(grid, rows, strict=True):
        for number, (axes, head) in enumerate(zip(axes_row, weights, strict=True)):
            image = heat(axes, head, low=0, high=1)
            axes.set_title(f"head {number}: {name(head)}\n{mass(head):.0f} % mirrored")
        axes_row[0].set_ylabel(f"{title}\n\nposition that looks")
    for axes in grid[-1]:
        axes.set_xlabel("position looked at")
        axes.set(xticks=TICKS, yticks=TICKS)
    made.colorbar(
        image, ax=[axes for row in grid for axes in row], label="attention weight", shrink=0.6
    )
    return save(made, path)


def mass(head: Any) -> float:
    """Return the per cent of a map's attention on the mirrored token."""
    return PERCENT * float(antidiagonal_mass(torch.tensor(head)))


def name(head: Any) -> str:
    """Return what a map [S, S] attends to: the kinds of `headlight heads`, and "mirrored".

    With half of the weight or more it has that name; "uniform" comes first.
    """
    weights = np.asarray(head, dtype=np.float64)
    entropy = -(weights * np.log(np.maximum(weights, EPSILON))).sum(axis=1).mean()
    if entropy >= UNIFORM * np.log(len(weights)):
        return "uniform"
    shares = {
        "mirrored": mass(head) / PERCENT,
        "self": np.diagonal(weights).mean(),
        "previous": np.diagonal(weights, -1).mean(),
        "next": np.diagonal(weights, 1).mean(),
    }
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= CALLED else "other"


def heads(results: Results, path: Path) -> Path:
    """Draw every head of every seed: mirrored attention against accuracy lost without it."""
    made, [row] = figure(1, 2, height=3.8, share_x=True, share_y=True)
    for layer, axes in enumerate(row):
        for scheme in PRUNED:
            runs = select(results, "reversal", "reverse", scheme)
            _points(
                axes,
                scheme,
                [run["antidiagonal"][layer] for run in runs],
                [run["lost"][layer] for run in runs],
            )
        axes.axhline(0, color=GREY, linewidth=1)
        axes.set_title(f"layer {layer}")
        axes.set_xlabel("attention on the mirrored token, %")
    row[0].set_ylabel("accuracy lost without the head,\npercentage points")
    legend_below(made, row[0], 3)
    return save(made, path)


def _points(axes: Axes, scheme: str, masses: list[list[float]], lost: list[list[float]]) -> None:
    style = SCHEMES[scheme]
    axes.plot(
        PERCENT * np.ravel(masses),
        PERCENT * np.ravel(lost),
        linestyle="none",
        marker=style.marker,
        color=style.colour,
        markersize=7,
        alpha=0.8,
        label=scheme,
    )
