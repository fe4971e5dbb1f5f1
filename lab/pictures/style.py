"""Shared style of the lab's plots: sizes, colours, and ranges over seeds.

Figures are plain matplotlib objects, without pyplot and its global state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.legend import Legend
from numpy.typing import ArrayLike

# Inches. A README is about 880 CSS pixels wide, so an inch is 100 CSS pixels and a point 1.4.
WIDTH = 8.8
DOTS_PER_INCH = 150  # 1.5 dots per CSS pixel, for high-density screens
TEXT, SMALL = 10.0, 9.0  # points; nothing is written smaller
SEQUENTIAL = "cividis"  # looks the same with and without a colour vision deficiency
DIVERGING = "PuOr"  # orange below zero, white, purple above; distinct under every deficiency
UNSEEN = "#d9d9d9"  # background of cells without a value, also hatched
GREY = "#555555"  # marks, notes
BAND_ALPHA = 0.2
DEFAULTS: Any = {  # Any: matplotlib types it by the names of its 300 settings
    "axes.grid": True,
    "axes.labelsize": TEXT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": TEXT,
    "figure.titlesize": TEXT + 1,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same letters on every machine
    "font.size": TEXT,
    "grid.alpha": 0.3,
    "legend.fontsize": SMALL,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
}


@dataclasses.dataclass(frozen=True)
class Style:
    """Look of one series. Marker and dashes distinguish series where colours do not."""

    colour: str
    marker: str
    line: str = "-"


# Colours are those of Okabe and Ito (2008), which stay distinct under the common colour vision
# deficiencies.
SCHEMES: Mapping[str, Style] = MappingProxyType(
    {
        "none": Style("#000000", "x", ":"),
        "sinusoidal": Style("#E69F00", "o", "-"),
        "learned": Style("#009E73", "s", "--"),
        "rope": Style("#0072B2", "^", "-"),
        "alibi": Style("#D55E00", "v", "-."),
        "alibi signed": Style("#CC79A7", "D", "-"),
    }
)
# For series other than schemes: heads, pairs, scalings.
SERIES = (
    Style("#0072B2", "o", "-"),
    Style("#D55E00", "s", "--"),
    Style("#009E73", "^", "-."),
    Style("#CC79A7", "D", "--"),
    Style("#E69F00", "v", "-"),
    Style("#56B4E9", "P", "--"),
    Style("#000000", "x", "-."),
)


def figure(
    rows: int = 1,
    columns: int = 1,
    height: float = 3.6,
    *,
    share_x: bool = False,
    share_y: bool = False,
) -> tuple[Figure, list[list[Axes]]]:
    """Return an empty figure and its axes by row and column.

    It is as wide as a README and `height` inches high.
    """
    with mpl.rc_context(DEFAULTS):
        made = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, layout="constrained")
        axes = made.subplots(rows, columns, squeeze=False, sharex=share_x, sharey=share_y)
    return made, [list(row) for row in axes]


def save(made: Figure, path: Path) -> Path:
    """Write a PNG without date and software: the same picture gives the same bytes.

    Return its path.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(DEFAULTS):  # ticks are created when they are drawn
        made.savefig(path, dpi=DOTS_PER_INCH, format="png", metadata={"Software": None})
    return path


def band(
    axes: Axes, x: ArrayLike, values: ArrayLike, name: str, style: Style | None = None
) -> None:
    """Draw the mean over seeds as a line, and the range from least to greatest as a band.

    Args:
        axes: where to draw.
        x: [points].
        values: [seeds, points]; NaN where a seed has no value, which leaves a gap in the line.
        name: of the series, for the legend.
        style: None for that of the scheme called `name`.

    Raises:
        KeyError: no style is given and `name` is not a scheme.
    """
    chosen, each = style or SCHEMES[name], np.asarray(values, dtype=np.float64)
    axes.fill_between(
        np.asarray(x), each.min(0), each.max(0), color=chosen.colour, alpha=BAND_ALPHA, linewidth=0
    )
    axes.plot(
        np.asarray(x),
        each.mean(0),
        color=chosen.colour,
        marker=chosen.marker,
        linestyle=chosen.line,
        markersize=6,
        linewidth=1.8,
        label=name,
    )


def spread(
    axes: Axes, at: float, values: Sequence[float], name: str, style: Style | None = None
) -> None:
    """Draw the mean over seeds as a mark at `at`, and the range from least to greatest as a bar.

    Otherwise as `band`.
    """
    chosen, mean = style or SCHEMES[name], float(np.mean(values))
    axes.errorbar(
        [at],
        [mean],
        yerr=[[mean - min(values)], [max(values) - mean]],
        color=chosen.colour,
        marker=chosen.marker,
        markersize=7,
        capsize=4,
        linewidth=1.8,
        linestyle="none",
        label=name,
    )


def heat(
    axes: Axes,
    values: ArrayLike,
    *,
    low: float,
    high: float,
    colours: str = SEQUENTIAL,
    unseen: bool = False,
) -> AxesImage:
    """Draw a matrix as colours, first row on top, in equal cells that fill the axes.

    Args:
        axes: where to draw.
        values: [rows, columns].
        low, high: the values at the ends of the colour map.
        colours: SEQUENTIAL, DIVERGING or another map.
        unseen: cells of NaN are grey and hatched.
    """
    axes.grid(visible=False)
    axes.spines[:].set_visible(True)
    if unseen:
        axes.patch.set(facecolor=UNSEEN, hatch="////", edgecolor="#9a9a9a")
    shown = np.ma.masked_invalid(np.asarray(values, dtype=np.float64))
    colour_map: Colormap = mpl.colormaps[colours]
    return axes.imshow(
        shown, cmap=colour_map, vmin=low, vmax=high, interpolation="nearest", aspect="auto"
    )


def lengths(axes: Axes, at: Sequence[int], label: str = "length, tokens") -> None:
    """Set a horizontal axis with a logarithmic scale of base 2.

    Its ticks are the lengths that were measured.
    """
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(at), [str(length) for length in at])
    axes.minorticks_off()
    axes.set_xlabel(label)


def mark(axes: Axes, at: float, text: str) -> None:
    """Draw a vertical line that the legend explains, such as the longest training length."""
    axes.axvline(at, color=GREY, linestyle=(0, (1, 1)), linewidth=1.4, label=text)


def legend_below(made: Figure, axes: Axes, columns: int) -> Legend:
    """Put the legend of one of the axes below all of them, where it covers no data."""
    handles, labels = axes.get_legend_handles_labels()
    return made.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        handlelength=3,
    )
