"""What the lab's pictures have in common: sizes, colours, and how a range over seeds looks.

Figures are matplotlib objects of their own; pyplot and its global state take no part.
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

# Inches: a README is about 880 CSS pixels wide, so an inch is seen as 100 and a point as 1.4 of
# them.
WIDTH = 8.8
DOTS_PER_INCH = 150  # half as many dots again as CSS pixels, for dense screens
TEXT, SMALL = 10.0, 9.0  # points; nothing is written smaller
SEQUENTIAL = "cividis"  # alike to readers with and without a colour vision deficiency
DIVERGING = "PuOr"  # orange below zero, white, purple above; told apart whatever the deficiency
UNSEEN = "#d9d9d9"  # behind cells that hold no value; hatched besides
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
    """How one series looks. Marker and dashes tell series apart where colours do not."""

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
# For series that are no schemes: heads, pairs, scalings.
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
    """An empty figure as wide as a README, `height` inches high, and its axes by row and column."""
    with mpl.rc_context(DEFAULTS):
        made = Figure(figsize=(WIDTH, height), dpi=DOTS_PER_INCH, layout="constrained")
        axes = made.subplots(rows, columns, squeeze=False, sharex=share_x, sharey=share_y)
    return made, [list(row) for row in axes]


def save(made: Figure, path: Path) -> Path:
    """Writes a PNG that holds neither date nor software: the same picture, the same bytes.

    Returns its path.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(DEFAULTS):  # ticks come into being when they are drawn
        made.savefig(path, dpi=DOTS_PER_INCH, format="png", metadata={"Software": None})
    return path


def band(
    axes: Axes, x: ArrayLike, values: ArrayLike, name: str, style: Style | None = None
) -> None:
    """The mean over seeds as a line, the range from the least to the greatest as a band.

    Args:
        axes: where to draw.
        x: [points].
        values: [seeds, points]; NaN where a seed has no value, and the line then has a gap.
        name: of the series, for the legend.
        style: None for that of the scheme called `name`.

    Raises:
        KeyError: no style is given and `name` is no scheme.
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
    """The mean over seeds as a mark at `at`, the range from the least to the greatest as a bar.

    Else as `band`.
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
    """A matrix as colours, the first row on top, cells of equal height and width filling the axes.

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
    """A horizontal axis that doubles at equal distances.

    Its ticks are the lengths that were measured.
    """
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(at), [str(length) for length in at])
    axes.minorticks_off()
    axes.set_xlabel(label)


def mark(axes: Axes, at: float, text: str) -> None:
    """A vertical line that the legend explains, as at the longest length of the training."""
    axes.axvline(at, color=GREY, linestyle=(0, (1, 1)), linewidth=1.4, label=text)


def legend_below(made: Figure, axes: Axes, columns: int) -> Legend:
    """The legend of one of the axes under all of them, where it covers no data."""
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
