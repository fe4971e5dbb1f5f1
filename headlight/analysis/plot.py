"""Attention as a picture. Needs matplotlib (extra [plot]); nothing else in the client does."""

from __future__ import annotations

import importlib.util
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

COLOUR_MAP = "cividis"  # the same to readers with and without a colour vision deficiency
GRID_LABELS = 32  # tokens up to which the panels of a grid are labelled
SINGLE_LABELS = 240  # and up to which a single panel is
MAX_PANELS = 400  # a grid of more takes minutes and shows nothing
MAX_SIDE = 30.0  # inches that a grid is wide or high before its panels get smaller
DOTS_PER_INCH = 150
MAX_LABEL = 16  # characters
POINTS_PER_INCH = 72


def is_available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_attention(
    attention: Attention,
    path: str | Path,
    *,
    layer: int | None = None,
    head: int | None = None,
    text: str | tuple[str, str] | None = None,
) -> None:
    """Draws attention maps into a PNG file: queries downwards, keys to the right, one scale for all panels.

    Args:
        attention: what to draw.
        path: the file; replaced where it exists.
        layer: one of the layers held, or negative from the end of them; None: all of them.
        head: one head; None: all of them. A single map is drawn large.
        text: the text, or both of a pair, for labels that read as it does.

    Raises:
        ValueError: the layer or the head is not here, or there are more than `MAX_PANELS` maps.
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    layers = attention.layers if layer is None else (attention.layer_number(layer),)
    heads = range(attention.heads) if head is None else (attention.head_number(head),)
    if len(layers) * len(heads) > MAX_PANELS:
        raise ValueError(
            f"{len(layers)} × {len(heads)} maps are too many for one picture ({MAX_PANELS}); choose a layer"
        )
    labels = [shortened(visible(label), MAX_LABEL) for label in attention.tokens.labels(text)]
    rows = [[attention.head(each, other) for other in heads] for each in layers]
    figure = single(rows[0][0], labels) if len(layers) == len(heads) == 1 else grid(rows, layers, heads, labels)
    what = f"layer {layers[0]}, head {heads[0]}" if len(layers) == len(heads) == 1 else "each head"
    figure.suptitle(f"{visible(attention.model.name)}: attention weights of {what}", parse_math=False)
    with warnings.catch_warnings():
        # A label in a script that the font lacks is drawn as boxes; the weights are what the picture is for.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(path, dpi=DOTS_PER_INCH, format="png")


def single(weights: Floats, labels: Sequence[str]) -> Figure:
    """One map, as large as its tokens need: labels shrink, down to 5 points, before it grows beyond 18 inches."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # an extra: whoever draws nothing needs no matplotlib

    count, labelled = len(labels), len(labels) <= SINGLE_LABELS
    side = max(5.0, min(0.24 * count + 2.5, 18.0), 0.085 * count + 2.5 if labelled else 0.0)  # inches
    figure = Figure(figsize=(side + 1.0, side), layout="constrained")
    axes = figure.add_subplot()
    image = draw(axes, weights, float(weights.max()), int((side - 2.5) * DOTS_PER_INCH))
    axes.set_xlabel("key token")
    axes.set_ylabel("query token")
    if labelled:
        label_axes(axes, labels, size=min(9.0, 0.72 * POINTS_PER_INCH * (side - 2.0) / count))
    figure.colorbar(image, ax=axes, label="weight (each row sums to 1)", shrink=0.85, aspect=40)
    return figure


def panel_side(layers: int, heads: int, count: int) -> tuple[float, bool]:
    """Inches for each map of a grid, and whether there is room for labels."""
    side = max(2.6, 0.15 * count + 0.8)
    if count <= GRID_LABELS and side * max(layers, heads) <= MAX_SIDE:
        return side, True
    return max(1.2, min(3.0, MAX_SIDE / max(layers, heads))), False


def grid(
    rows: Sequence[Sequence[Floats]], layers: Sequence[int], heads: Sequence[int], labels: Sequence[str]
) -> Figure:
    """A panel for each head, a row for each layer, one colour scale."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # as above

    panel, labelled = panel_side(len(layers), len(heads), len(labels))
    figure = Figure(figsize=(panel * len(heads) + 1.8, panel * len(layers) + 1.2), layout="constrained")
    panels = figure.subplots(len(layers), len(heads), squeeze=False, sharex=True, sharey=True)
    top = max(float(weights.max()) for row in rows for weights in row)
    for row, (layer, maps) in enumerate(zip(layers, rows, strict=True)):
        for column, (head, weights) in enumerate(zip(heads, maps, strict=True)):
            axes = panels[row, column]
            image = draw(axes, weights, top, int((panel - 0.4) * DOTS_PER_INCH))
            axes.set_title(f"layer {layer}, head {head}", fontsize=9 if panel >= 2 else 7)
            if labelled:
                label_axes(axes, labels, size=7)
            axes.label_outer()
    figure.supxlabel("key token")
    figure.supylabel("query token")
    figure.colorbar(image, ax=panels, label="weight (each row sums to 1)", shrink=0.85, aspect=40)
    return figure


def draw(axes: Axes, weights: Floats, top: float, dots: int) -> AxesImage:
    """One map, the first query on top. Where weights outnumber the dots, the greatest of those that share one is seen."""
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
    """The greatest weight of each `block` × `block` square: float32 [n, n] -> [ceil(n / block), ceil(n / block)]."""
    missing = -len(weights) % block
    filled = np.pad(weights, (0, missing))
    side = len(filled) // block
    greatest: Floats = filled.reshape(side, block, side, block).max(axis=(1, 3))
    return greatest


def label_axes(axes: Axes, labels: Sequence[str], size: float) -> None:
    """Names the tokens on both axes. Labels are not formulas, whatever signs they hold."""
    places = range(len(labels))
    axes.set_xticks(places, labels, rotation=90, fontsize=size, parse_math=False)
    axes.set_yticks(places, labels, fontsize=size, parse_math=False)
