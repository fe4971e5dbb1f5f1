"""ALiBi plot: the bias that each head adds to the score of a query and a key."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from matplotlib.colors import FuncNorm
from numpy.typing import NDArray

from headlight_model.masking import MASKED_SCORE
from lab import schemes
from lab.pictures import style

HEADS, LENGTH = 4, 64
Floats = NDArray[np.float64]


def bias(scheme: str) -> Floats:
    """Return the bias [heads, queries, keys], NaN where a head does not see the key."""
    positions = schemes.positions(scheme, heads=HEADS)
    unread = torch.zeros(())  # queries and keys
    made = positions.bias(positions.prepare(torch.arange(LENGTH)[None]), 0, unread, unread)
    assert made is not None  # ALiBi is a bias
    values: Floats = made[0].double().numpy()
    return np.where(values > MASKED_SCORE / 2, values, np.nan)


def draw_biases(path: Path) -> Path:
    """Draw a map for each head, the symmetric form above the signed one, on one scale."""
    forms = {"symmetric": bias("alibi"), "signed": bias("alibi signed")}
    low = min(float(np.nanmin(values)) for values in forms.values())
    made, axes = style.figure(len(forms), HEADS, height=5.1, share_x=True, share_y=True)
    # Slopes span a factor of 64: a square-root scale shows the flat heads too.
    scale = FuncNorm(
        (lambda x: -np.sqrt(np.maximum(-x, 0)), lambda x: -np.square(x)), vmin=low, vmax=0
    )
    for row, (form, values) in zip(axes, forms.items(), strict=True):
        for head, panel in enumerate(row):
            image = style.heat(panel, values[head], low=low, high=0, unseen=True)
            image.set_norm(scale)
            panel.set_title(f"{form}, head {head}\nslope {slope(values[head])}")
            panel.set(xticks=range(0, LENGTH, 16), yticks=range(0, LENGTH, 16), aspect="equal")
    made.supxlabel(
        "key, position in tokens (hatched: the head does not see it)", fontsize=style.TEXT
    )
    made.supylabel("query, position in tokens", fontsize=style.TEXT)
    every = [panel for row in axes for panel in row]
    ticks = [0, -0.25, -1, -4, -8, -15]
    made.colorbar(
        image,
        ax=every,
        label="added to the score (no unit)",
        ticks=ticks,
        format="%g",
        aspect=35,
        pad=0.02,
    )
    made.suptitle("ALiBi adds −slope · |query − key| to the score: four heads")
    return style.save(made, path)


def slope(values: Floats) -> Fraction:
    """Return how much the score falls per token of distance, from a bias [queries, keys]."""
    places = np.arange(len(values))
    return Fraction(-float(np.nanmax(values[np.abs(places[:, None] - places) == 1])))
