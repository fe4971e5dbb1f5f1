"""Plots of rotary positions.

Pairs on their circles, and the score over distance, by theta and by scaling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray

from headlight_model.positions.position_schemes import Positions
from headlight_model.positions.rope import RopeScaling
from lab import schemes
from lab.pictures import style

HEAD = 64  # dimensions of a head; 32 pairs
SHOWN_POSITIONS = 32
# Pairs of different speed, and which of their positions are labelled.
SHOWN_PAIRS: Mapping[int, tuple[str, Sequence[int]]] = {
    0: ("fast", range(7)),
    8: ("middling", (0, 8, 16, 24, 31)),
    31: ("slow", ()),  # all points coincide
}
THETAS = (100.0, 10000.0)
TRAINED, FACTOR = 64, 4  # tokens, and the factor by which scaling extends them
SCALED_THETA = 100.0
SCALINGS: Mapping[str, RopeScaling | None] = {
    "none": None,
    "linear": RopeScaling(kind="linear", factor=FACTOR),
    "NTK": RopeScaling(kind="ntk", factor=FACTOR),
    "YaRN": RopeScaling(kind="yarn", factor=FACTOR, trained_length=TRAINED),
}
Floats = NDArray[np.float64]


def rope(theta: float, scaling: RopeScaling | None = None) -> Positions:
    """Return the scheme of one head of HEAD dimensions."""
    return schemes.positions("rope", dim=HEAD, heads=1, rope_theta=theta, rope_scaling=scaling)


def turned(scheme: Positions, count: int) -> Floats:
    """Return pairs rotated as queries at positions 0 .. count-1: [count, pairs, 2].

    All begin as (1, 0).
    """
    # The first of each pair, then the second.
    start = torch.cat([torch.ones(HEAD // 2), torch.zeros(HEAD // 2)])
    heads = scheme.rotate(
        start.expand(1, 1, count, HEAD), scheme.prepare(torch.arange(count)[None])
    )
    pairs: Floats = torch.stack(heads[0, 0].double().chunk(2, dim=-1), dim=-1).numpy()
    return pairs


def wavelengths(scheme: Positions) -> Floats:
    """Return the positions in a full turn of each pair: [pairs].

    Computed from the rotation between positions 0 and 1.
    """
    there = turned(scheme, 2)[1]
    angles: Floats = 2 * math.pi / np.arctan2(there[:, 1], there[:, 0])
    return angles


def scores(scheme: Positions, count: int) -> Floats:
    """Return q · k / d of q = k = (1, ..., 1), k at position 0 and q at 0 .. count-1: [count].

    It is the mean over pairs of cos(distance · frequency), times the square of YaRN's factor. It is
    also the average over all directions of q = k of length √d.
    """
    ones = torch.ones(1, 1, count, HEAD)
    heads = scheme.rotate(ones, scheme.prepare(torch.arange(count)[None]))[0, 0].double()
    return (heads @ heads[0] / HEAD).numpy()


def draw_circles(path: Path) -> Path:
    """Draw a few pairs on the unit circle, positions by colour."""
    made, (panels,) = style.figure(1, len(SHOWN_PAIRS), height=3.7)
    scheme = rope(THETAS[-1])
    places, turns = turned(scheme, SHOWN_POSITIONS), wavelengths(scheme)
    last = SHOWN_POSITIONS - 1
    around = np.linspace(0, 2 * math.pi, 200)
    for axes, (pair, (speed, written)) in zip(panels, SHOWN_PAIRS.items(), strict=True):
        axes.plot(np.cos(around), np.sin(around), color=style.GREY, lw=0.8, zorder=1)
        x, y = places[:, pair].T
        image = axes.scatter(
            x,
            y,
            c=range(SHOWN_POSITIONS),
            cmap=style.SEQUENTIAL,
            s=42,
            ec="white",
            lw=0.5,
            zorder=2,
        )
        for at in written:
            axes.text(
                1.2 * x[at], 1.2 * y[at], str(at), ha="center", va="center", fontsize=style.SMALL
            )
        axes.text(
            0,
            0,
            f"0 to {last}:\n{last / turns[pair]:.2g} turns",
            ha="center",
            va="center",
            fontsize=style.SMALL,
        )
        axes.set_title(
            f"{speed}: pair {pair}\n{turns[pair]:,.{1 if turns[pair] < 1000 else 0}f} positions a "
            "turn"
        )
        axes.set(
            aspect="equal", xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), xticks=[-1, 0, 1], yticks=[-1, 0, 1]
        )
        axes.set_xlabel(f"dimension {pair} (no unit)")
        axes.set_ylabel(f"dimension {pair + HEAD // 2} (no unit)", labelpad=0)
    made.suptitle(
        f"RoPE turns pair i of a query or key by position · theta^(-2i/d): d = {HEAD}, theta = "
        f"{THETAS[-1]:g}"
    )
    made.colorbar(
        image,
        ax=panels,
        label="position, tokens",
        ticks=[0, 8, 16, 24, 31],
        aspect=20,
        pad=0.02,
        shrink=0.8,
    )
    return style.save(made, path)


def plot_rotations(axes: Axes, each: Mapping[str, Positions]) -> None:
    """Plot the wavelength of each pair, one line per scheme, and the trained length."""
    for (name, scheme), look in zip(each.items(), style.SERIES, strict=False):
        turns = wavelengths(scheme)
        axes.plot(
            turns,
            color=look.colour,
            linestyle=look.line,
            marker=look.marker,
            ms=5,
            markevery=4,
            label=name,
        )
    axes.axhline(
        TRAINED,
        color=style.GREY,
        linestyle=":",
        lw=1.6,
        label=f"{TRAINED} tokens: the longest in training",
    )
    axes.set_yscale("log")
    axes.set(
        xlabel=f"pair i of {HEAD // 2}",
        ylabel="wavelength, positions",
        title="How fast each pair turns",
    )


def plot_scores(
    axes: Axes, each: Mapping[str, Positions], shown: Sequence[str], title: str
) -> None:
    """Plot the score over distance of the schemes in `shown`, and the trained length.

    Each scheme keeps its colour among all.
    """
    count = TRAINED * FACTOR + 1
    for (name, scheme), look in zip(each.items(), style.SERIES, strict=False):
        if name in shown:
            axes.plot(scores(scheme, count), color=look.colour, linestyle=look.line, lw=1.5)
    axes.axhline(0, color=style.GREY, lw=0.8)
    axes.axvline(TRAINED, color=style.GREY, linestyle=":", lw=1.6)
    axes.set(
        xlabel="distance of query and key, tokens", ylabel="score q · k / d (no unit)", title=title
    )
    axes.set(xlim=(0, count - 1), xticks=range(0, count, TRAINED))


def draw_thetas(path: Path) -> Path:
    """Draw the same head with several bases."""
    each = {f"theta = {theta:g}": rope(theta) for theta in THETAS}
    made, ((left, right),) = style.figure(1, 2, height=4.2)
    plot_rotations(left, each)
    plot_scores(right, each, list(each), "Score of q = k = (1, …, 1)")
    made.suptitle(f"RoPE by theta, a head of {HEAD} dimensions")
    style.legend_below(made, left, columns=len(each) + 1)
    return style.save(made, path)


def draw_scalings(path: Path) -> Path:
    """Draw the same head scaled to FACTOR times its length, each scaling beside none."""
    each = {name: rope(SCALED_THETA, scaling) for name, scaling in SCALINGS.items()}
    made, axes = style.figure(2, 2, height=6.2)
    first, *others = (panel for row in axes for panel in row)
    plot_rotations(first, each)
    for panel, (name, scaling) in zip(others, list(SCALINGS.items())[1:], strict=True):
        grown = scaling.amplitude**2 if scaling is not None else 1.0
        note = f" (all scores also × {grown:.2f})" if grown != 1 else ""
        plot_scores(panel, each, ["none", name], f"Score: none, {name}{note}")
        panel.set_ylim(-0.4, 1.4)
    what = f"a head of {HEAD}, theta = {SCALED_THETA:g}; scores of q = k = (1, …, 1)"
    made.suptitle(f"RoPE stretched from {TRAINED} to {TRAINED * FACTOR} tokens: {what}")
    style.legend_below(made, first, columns=len(each) + 1)
    return style.save(made, path)
