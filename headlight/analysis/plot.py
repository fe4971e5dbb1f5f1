"""Attention maps as a PNG picture.

Requires matplotlib (extra [plot]), which no other part of the client needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headlight.analysis.terminal_view import visible
from headlight.results import Attention, Floats
from headlight.wire.printable import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

COLOUR_MAP = "cividis"  # looks the same with and without a colour vision deficiency
GRID_LABELS = 32  # a grid with more tokens has no labels
SINGLE_LABELS = 240  # a single panel with more tokens has no labels
MAX_PANELS = 400  # a larger grid takes minutes and is unreadable
MAX_SIDE = 30.0  # inches, the longest side of a grid; then panels get smaller
DOTS_PER_INCH = 150
MAX_LABEL = 16  # characters
POINTS_PER_INCH = 72


def plot_attention(
    attention: Attention,
    path: str | Path,
    *,
    layer: int | None = None,
    head: int | None = None,
    text: str | tuple[str, str] | None = None,
) -> None:
    """Draw attention maps into a PNG file: queries downwards, keys to the right, one colour scale.

    Args:
        attention: the maps.
        path: the file; an existing one is replaced.
        layer: a layer of `attention`, or negative, counted from its last; None: all of them.
        head: one head; None: all of them. A single map is drawn large.
        text: the text or the pair, whose own characters then label the tokens; None: the
            vocabulary's pieces.

    Raises:
        ValueError: `attention` lacks the layer or the head, or there are more than `MAX_PANELS`
            maps.
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    layers = attention.layers if layer is None else (attention.layer_number(layer),)
    heads = range(attention.heads) if head is None else (attention.head_number(head),)
    if len(layers) * len(heads) > MAX_PANELS:
        raise ValueError(
            f"{len(layers)} × {len(heads)} maps are too many for one picture ({MAX_PANELS}); "
            "choose a layer"
        )
    labels = [shortened(visible(label), MAX_LABEL) for label in attention.tokens.labels(text)]
    rows = [[attention.head(each, other) for other in heads] for each in layers]
    figure = panels_of(rows, layers, heads, labels)
    what = f"layer {layers[0]}, head {heads[0]}" if len(layers) == len(heads) == 1 else "each head"
    figure.suptitle(
        f"{visible(attention.model.name)}: attention weights of {what}", parse_math=False
    )
    with warnings.catch_warnings():
        # The font may lack a script. Its labels become boxes, but the weights are right.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(path, dpi=DOTS_PER_INCH, format="png")


def single_side(count: int) -> tuple[float, float]:
    """Return the side of a single map of `count` tokens in inches, and its label size in points.

    Labels shrink, down to 4.5 points, before the map grows beyond 18 inches. 0 points: no labels.
    """
    if count > SINGLE_LABELS:
        return 18.0, 0.0
    side = max(5.0, min(0.24 * count + 2.5, 18.0), 0.085 * count + 2.5)
    return side, min(9.0, 0.72 * POINTS_PER_INCH * (side - 2.0) / count)


def panel_side(layers: int, heads: int, count: int) -> tuple[float, float]:
    """Return the side of each map of a grid in inches, and its label size in points; 0: none."""
    side = max(2.6, 0.15 * count + 0.8)
    if count <= GRID_LABELS and side * max(layers, heads) <= MAX_SIDE:
        return side, 7.0
    return max(1.2, min(3.0, MAX_SIDE / max(layers, heads))), 0.0


def panels_of(
    rows: Sequence[Sequence[Floats]],
    layers: Sequence[int],
    heads: Sequence[int],
    labels: Sequence[str],
) -> Figure:
    """Return a figure with a panel for each head, a row for each layer, one colour scale."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # an extra, only for drawing

    alone = len(layers) == len(heads) == 1
    side, size = (
        single_side(len(labels)) if alone else panel_side(len(layers), len(heads), len(labels))
    )
    # inches: around the map in each panel, and around the whole grid
    rim, width, height = (2.5, 1.0, 0.0) if alone else (0.4, 1.8, 1.2)
    figure = Figure(
        figsize=(side * len(heads) + width, side * len(layers) + height), layout="constrained"
    )
    panels = figure.subplots(len(layers), len(heads), squeeze=False, sharex=True, sharey=True)
    top = max(float(weights.max()) for row in rows for weights in row)
    for (row, column), axes in np.ndenumerate(panels):
        image = draw(axes, rows[row][column], top, int((side - rim) * DOTS_PER_INCH))
        if not alone:
            axes.set_title(
                f"layer {layers[row]}, head {heads[column]}", fontsize=9 if side >= 2 else 7
            )
        if size:  # labels are text, not formulas, even with a "$"
            axes.set_xticks(
                range(len(labels)), labels, rotation=90, fontsize=size, parse_math=False
            )
            axes.set_yticks(range(len(labels)), labels, fontsize=size, parse_math=False)
        axes.label_outer()
    (panels[0, 0].set_xlabel if alone else figure.supxlabel)("key token")
    (panels[0, 0].set_ylabel if alone else figure.supylabel)("query token")
    figure.colorbar(image, ax=panels, label="weight (each row sums to 1)", shrink=0.85, aspect=40)
    return figure


def draw(axes: Axes, weights: Floats, top: float, dots: int) -> AxesImage:
    """Draw one map, the first query on top. If weights share a dot, the largest is shown."""
    count = len(weights)
    block = -(-count // dots)
    axes.tick_params(labelsize=8)
    edge = -(-count // block) * block - 0.5
    return axes.imshow(
        pooled(weights, block),
        cmap=COLOUR_MAP,
        vmin=0.0,
        vmax=top,
        interpolation="nearest",
        extent=(-0.5, edge, edge, -0.5),
    )


def pooled(weights: Floats, block: int) -> Floats:
    """Return the largest weight of each `block` × `block` square.

    float32 [n, n] -> [ceil(n / block), ceil(n / block)].
    """
    missing = -len(weights) % block
    filled = np.pad(weights, (0, missing))
    side = len(filled) // block
    greatest: Floats = filled.reshape(side, block, side, block).max(axis=(1, 3))
    return greatest
