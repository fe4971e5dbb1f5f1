"""Plots of sinusoidal positions.

The table that is added to embeddings, its first pairs, and the wavelength of each pair.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import NDArray

from lab import schemes
from lab.pictures import style

WIDTH = 128  # dimensions
POSITIONS = 128  # tokens
FEW_WIDTH, FEW_POSITIONS = 16, 64  # so small that the first pairs differ visibly
PAIRS = 4
SCALES = {"fast": 0, "middle": 20, "slow": 48}  # pairs
TRAINED = 128  # tokens; the longest text in the training of the shipped models
Floats = NDArray[np.float64]


def encoding(count: int, width: int) -> Floats:
    """Return PE of positions 0 .. count-1, as added to embeddings of zeros: [count, width]."""
    scheme = schemes.positions("sinusoidal", dim=width, heads=1, max_length=max(count, TRAINED))
    state = scheme.prepare(torch.arange(count)[None])
    return scheme.embed(torch.zeros(1, count, width), state)[0].double().numpy()


def wavelengths(width: int) -> Floats:
    """Return the positions in a full turn of each pair: [pairs].

    Computed from the rotation between positions 0 and 1. No pair turns further than one radian a
    position, so the angle is unambiguous.
    """
    there = encoding(2, width)[1]
    turned: Floats = 2 * math.pi / np.arctan2(there[0::2], there[1::2])  # the sine comes first
    return turned


def draw_table(path: Path) -> Path:
    """Draw PE as a heat map, positions from left to right."""
    made, ((axes,),) = style.figure(height=4.9)
    image = style.heat(axes, encoding(POSITIONS, WIDTH).T, low=-1, high=1, colours=style.DIVERGING)
    axes.set_xlabel("position, tokens")
    axes.set_ylabel("dimension (even: sine, odd: cosine)")
    axes.set_xticks(range(0, POSITIONS, 16))
    axes.set_yticks(range(0, WIDTH, 16))
    axes.set_title(
        f"Sinusoidal encoding of {POSITIONS} positions, {WIDTH} dimensions: fast waves at the low "
        "ones"
    )
    made.colorbar(
        image, ax=axes, label="PE (no unit)", ticks=[-1, -0.5, 0, 0.5, 1], aspect=30, pad=0.02
    )
    return style.save(made, path)


def draw_pairs(path: Path) -> Path:
    """Draw the first eight dimensions over positions, for a wide and a narrow model.

    Each pair has a panel.
    """
    made, axes = style.figure(PAIRS, 2, height=6.0, share_x=True, share_y=True)
    for column, width in enumerate((WIDTH, FEW_WIDTH)):
        table, turns = encoding(FEW_POSITIONS, width), wavelengths(width)
        for pair in range(PAIRS):
            panel = axes[pair][column]
            plot_pair(panel, table, pair, marker=".")
            head = f"{width} dimensions in all\n" if pair == 0 else ""
            panel.set_title(
                f"{head}dimensions {2 * pair}, {2 * pair + 1}: {turns[pair]:.1f} positions a turn"
            )
            panel.set_yticks([-1, 0, 1])
        axes[-1][column].set_xlabel("position, tokens")
    made.supylabel("PE (no unit)", fontsize=style.TEXT)
    style.legend_below(made, axes[0][0], columns=2)
    return style.save(made, path)


def draw_scales(path: Path) -> Path:
    """Draw a fast, a middle and a slow pair over the positions of a text in training."""
    made, axes = style.figure(1, 3, height=3.2, share_y=True)
    table, turns = encoding(POSITIONS, WIDTH), wavelengths(WIDTH)
    for panel, (name, pair) in zip(axes[0], SCALES.items(), strict=True):
        plot_pair(panel, table, pair)
        panel.set_title(
            f"{name}: dimensions {2 * pair}, {2 * pair + 1}\n{turns[pair]:,.0f} positions a turn"
        )
        panel.set_yticks([-1, 0, 1])
        panel.set_xlabel("position, tokens")
    made.supylabel("PE (no unit)", fontsize=style.TEXT)
    style.legend_below(made, axes[0][0], columns=2)
    return style.save(made, path)


def plot_pair(panel: Axes, table: Floats, pair: int, marker: str = "") -> None:
    """Plot the two dimensions of a pair over the positions of a table [positions, D]."""
    for odd, (name, look) in enumerate((("sine", style.SERIES[0]), ("cosine", style.SERIES[1]))):
        panel.plot(
            table[:, 2 * pair + odd],
            color=look.colour,
            linestyle=look.line,
            marker=marker,
            ms=5,
            lw=1.4,
            label=name,
        )


def draw_wavelengths(path: Path) -> Path:
    """Draw wavelength by dimension: measured, by the formula, and as some tutorials have it."""
    made, ((axes,),) = style.figure(height=5.2)
    dimensions, measured = np.arange(0, WIDTH, 2), wavelengths(WIDTH)
    plain = 10000.0 ** (dimensions / WIDTH)
    axes.plot(
        dimensions,
        measured,
        ".",
        color=style.SERIES[0].colour,
        ms=9,
        label="measured on the model's encoding",
    )
    right = 2 * math.pi * plain
    axes.plot(
        dimensions,
        right,
        color=style.SERIES[0].colour,
        lw=1.4,
        label="2π · 10000^(2i/D): the definition",
    )
    wrong = (
        ("10000^(2i/D): without 2π", plain, (0, (5, 2))),
        (
            "10000^(2·2i/D): as one tutorial has it, without 2π and with the factor 2 twice",
            plain**2,
            (0, (9, 2)),
        ),
        (
            "low dimensions slowest: as one tutorial has it, the other way round",
            right[::-1],
            (0, (2, 1.5)),
        ),
    )
    for (label, values, dashes), look in zip(wrong, style.SERIES[1:], strict=False):
        axes.plot(dimensions, values, color=look.colour, linestyle=dashes, lw=1.8, label=label)
    axes.axhline(
        TRAINED, color=style.GREY, lw=1.0, label=f"{TRAINED} tokens: the longest in training"
    )
    axes.set_yscale("log")
    axes.set_xticks(range(0, WIDTH + 1, 16))
    axes.set_xlabel(f"dimension 2i of D = {WIDTH}")
    axes.set_ylabel("wavelength, positions")
    never = int((measured > TRAINED).sum())
    axes.set_title(
        f"Low dimensions turn fastest; {never} of {WIDTH // 2} pairs finish no turn in {TRAINED} "
        "tokens"
    )
    style.legend_below(made, axes, columns=1)
    return style.save(made, path)
