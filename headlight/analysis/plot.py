"""Attention maps as a PNG picture.

Requires matplotlib (extra [plot]), which no other part of the client needs.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headlight.analysis.map_titles import map_title
from headlight.analysis.terminal_view import visible
from headlight.printable import shortened
from headlight.results import Attention, Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

COLOUR_MAP = "cividis"  # the same to readers with and without a colour vision deficiency
GRID_POINTS, SINGLE_POINTS = 7.0, 9.0  # size of labels
SMALLEST_POINTS = 5.0  # of those of a single map of many tokens
MAX_SINGLE = 18.0  # inches of a single map's side
LINE = 1.3  # from one label to the next, in its size
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)  # every so many tokens have a label
MAX_PANELS = 400  # a larger grid takes minutes and shows nothing
MAX_SIDE = 30.0  # inches of a grid's side; beyond it panels get smaller
DOTS_PER_INCH = 150
MAX_LABEL = 16  # characters
LEAST_TITLED = 2.0  # inches of a panel whose title has the head's kind; smaller ones would overlap
GRID_RIM, SINGLE_RIM = 0.4, 2.5  # inches of a panel beside its map
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

    If there is no room for a label of each token, every 2nd, 5th, 10th, ... token has one, with its
    number.

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
    special = attention.tokens.special
    labels = [shortened(visible(label), MAX_LABEL) for label in attention.tokens.labels(text)]
    rows = [[attention.head(each, other) for other in heads] for each in layers]
    figure = panels_of(rows, layers, heads, labels, special)
    what = "each head"
    if len(layers) == len(heads) == 1:
        what = map_title(layers[0], heads[0], rows[0][0], special)
    figure.suptitle(
        f"{visible(attention.model.name)}: attention weights of {what}", parse_math=False
    )
    with warnings.catch_warnings():
        # The font may lack a script. Its labels become boxes, but the weights are right.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(path, dpi=DOTS_PER_INCH, format="png")


def single_side(count: int) -> tuple[float, float]:
    """Return the inches of a single map, by its tokens, and the points of its labels.

    Labels shrink before the map grows beyond its greatest side, and have their full size again if
    only some tokens have one.
    """
    side = max(5.0, min(0.24 * count + 2.5, MAX_SINGLE))
    points = POINTS_PER_INCH * (side - SINGLE_RIM) / count / LINE
    return side, min(SINGLE_POINTS, points) if points >= SMALLEST_POINTS else SINGLE_POINTS


def panel_side(layers: int, heads: int, count: int) -> float:
    """Return the inches of each map of a grid."""
    return max(1.2, min(max(2.6, 0.15 * count + 0.8), MAX_SIDE / max(layers, heads)))


def label_step(count: int, inches: float, points: float) -> int:
    """Return every how many of `count` tokens along these inches a label of these points fits."""
    fitting = max(1.0, inches * POINTS_PER_INCH / points / LINE)
    return next((step for step in STEPS if count / step <= fitting), count)


def panels_of(
    rows: Sequence[Sequence[Floats]],
    layers: Sequence[int],
    heads: Sequence[int],
    labels: Sequence[str],
    special: Sequence[bool],
) -> Figure:
    """Return a figure with a panel for each head, a row for each layer, one colour scale.

    The heads of a single layer fill several rows.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415 # an extra, only for drawing

    maps = [
        (layer, head, weights)
        for layer, row in zip(layers, rows, strict=True)
        for head, weights in zip(heads, row, strict=True)
    ]
    alone = len(maps) == 1
    across = len(heads) if len(layers) > 1 else math.isqrt(len(heads) - 1) + 1
    down = -(-len(maps) // across)
    side, points = panel_side(down, across, len(labels)), GRID_POINTS
    rim, width, height = GRID_RIM, 1.8, 1.2  # inches in a panel, and beside all
    if alone:
        side, points = single_side(len(labels))
        rim, width, height = SINGLE_RIM, 1.0, 0.0
    step = label_step(len(labels), side - rim, points)
    ticks = range(0, len(labels), step)
    names = [labels[at] if step == 1 else f"{labels[at]} {at}" for at in ticks]
    figure = Figure(figsize=(side * across + width, side * down + height), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False)  # sharing axes is quadratic
    top = max(float(weights.max()) for _, _, weights in maps)
    for at, (axes, (layer, head, weights)) in enumerate(zip(panels.flat, maps, strict=False)):
        image = draw(axes, weights, top, int((side - rim) * DOTS_PER_INCH))
        if not alone:
            title = map_title(layer, head, weights, special)
            name, _, kind = title.partition(": ")
            if side >= LEAST_TITLED and kind:
                name = f"{name}\n{kind}"
            axes.set_title(name, fontsize=9 if side >= LEAST_TITLED else 7)
        # Labels are no formulas, whatever signs they have.
        axes.set_xticks(ticks, names, rotation=90, fontsize=points, parse_math=False)
        axes.set_yticks(ticks, names, fontsize=points, parse_math=False)
        axes.label_outer()
        if at + across >= len(maps):
            axes.tick_params(labelbottom=True)  # nothing is below it
    for axes in panels.flat[len(maps) :]:
        axes.remove()
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
