"""Attention as a picture. Needs matplotlib (extra [plot]); nothing else in the client does."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headlight.results import Attention, Floats
from headlight.terminal import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

COLOUR_MAP = "cividis"  # the same to readers with and without a colour vision deficiency
GRID_LABELS = 32  # tokens up to which the panels of a grid are labelled
PANEL_LABELS = 64  # and up to which a single panel is
DOTS_PER_INCH = 150
MAX_LABEL = 16  # characters


def is_available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def plot_attention(
    attention: Attention,
    path: str | Path,
    *,
    layer: int | None = None,
    head: int | None = None,
    text: str | None = None,
) -> None:
    """Draws attention maps into a PNG file: queries downwards, keys to the right, one scale for all panels.

    Args:
        attention: what to draw.
        path: the file; replaced where it exists.
        layer: one of the layers held, or negative from the end of them; None: all of them.
        head: one head; None: all of them. A single map is drawn large.
        text: the text, for labels that read as it does.

    Raises:
        ValueError: the layer or the head is not here.
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    layers = attention.layers if layer is None else (attention.layer_number(layer),)
    heads = range(attention.heads) if head is None else (attention.head_number(head),)
    labels = [shorten(label) for label in attention.tokens.labels(text)]
    rows = [[attention.head(each, other) for other in heads] for each in layers]
    figure = single(rows[0][0], labels) if len(layers) == len(heads) == 1 else grid(rows, layers, heads, labels)
    what = f"layer {layers[0]}, head {heads[0]}" if len(layers) == len(heads) == 1 else "each head"
    figure.suptitle(f"{attention.model.name}: attention weights of {what}")
    with warnings.catch_warnings():
        # A label in a script that the font lacks is drawn as boxes; the weights are what the picture is for.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(path, dpi=DOTS_PER_INCH, format="png")


def shorten(label: str) -> str:
    """A label of bounded length."""
    shown = visible(label)
    return shown if len(shown) <= MAX_LABEL else shown[: MAX_LABEL - 1] + "…"


def single(weights: Floats, labels: Sequence[str]) -> Figure:
    """One map, as large as its tokens need."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # an extra: whoever draws nothing needs no matplotlib

    side = min(max(5.0, 0.24 * len(labels) + 2.5), 18.0)  # inches
    figure = Figure(figsize=(side + 1.0, side), layout="constrained")
    axes = figure.add_subplot()
    image = draw(axes, weights, float(weights.max()))
    axes.set_xlabel("key token")
    axes.set_ylabel("query token")
    if len(labels) <= PANEL_LABELS:
        label_axes(axes, labels, size=9 if len(labels) <= 40 else 7)
    figure.colorbar(image, ax=axes, label="weight (each row sums to 1)", shrink=0.85)
    return figure


def grid(
    rows: Sequence[Sequence[Floats]], layers: Sequence[int], heads: Sequence[int], labels: Sequence[str]
) -> Figure:
    """A panel for each head, a row for each layer, one colour scale."""
    from matplotlib.figure import Figure  # noqa: PLC0415 # as above

    panel = max(2.6, 0.15 * len(labels) + 0.8) if len(labels) <= GRID_LABELS else 2.0  # inches
    figure = Figure(figsize=(panel * len(heads) + 1.8, panel * len(layers) + 1.2), layout="constrained")
    panels = figure.subplots(len(layers), len(heads), squeeze=False, sharex=True, sharey=True)
    top = max(float(weights.max()) for row in rows for weights in row)
    for row, (layer, maps) in enumerate(zip(layers, rows, strict=True)):
        for column, (head, weights) in enumerate(zip(heads, maps, strict=True)):
            axes = panels[row, column]
            image = draw(axes, weights, top)
            axes.set_title(f"layer {layer}, head {head}", fontsize=9)
            if len(labels) <= GRID_LABELS:
                label_axes(axes, labels, size=7)
            axes.label_outer()
    figure.supxlabel("key token")
    figure.supylabel("query token")
    figure.colorbar(image, ax=panels, label="weight (each row sums to 1)", shrink=0.85)
    return figure


def draw(axes: Axes, weights: Floats, top: float) -> AxesImage:
    """One map, the first query on top."""
    axes.tick_params(labelsize=8)
    return axes.imshow(weights, cmap=COLOUR_MAP, vmin=0.0, vmax=top, interpolation="nearest")


def label_axes(axes: Axes, labels: Sequence[str], size: int) -> None:
    """Names the tokens on both axes. Labels are not formulas, whatever signs they hold."""
    places = range(len(labels))
    axes.set_xticks(places, labels, rotation=90, fontsize=size, parse_math=False)
    axes.set_yticks(places, labels, fontsize=size, parse_math=False)
