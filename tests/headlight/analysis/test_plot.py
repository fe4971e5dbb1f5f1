from __future__ import annotations

import itertools
import struct
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from headlight import Client
from headlight.analysis import plot
from headlight.analysis.plot import (
    DOTS_PER_INCH,
    GRID_POINTS,
    GRID_RIM,
    draw,
    label_step,
    panel_side,
    panels_of,
    plot_attention,
    pooled,
)

TEXT = "price $x$ of 日本 \\frac"


def png_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert content.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


@pytest.mark.parametrize(
    ("layer", "head", "inches"),
    [
        (None, None, (2 * 2.6 + 1.8, 3 * 2.6 + 1.2)),
        (1, None, (2 * 2.6 + 1.8, 2.6 + 1.2)),
        (-1, -1, (6.0, 5.0)),
    ],
)
def test_a_picture_has_the_size_of_its_panels(
    client: Client, tmp_path: Path, layer: int | None, head: int | None, inches: tuple[float, float]
) -> None:
    path = tmp_path / "out.png"
    plot_attention(client.attend(TEXT), path, layer=layer, head=head, text=TEXT)
    assert png_size(path) == tuple(round(DOTS_PER_INCH * side) for side in inches)


def test_a_missing_layer_or_head_is_refused(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="head 2"):
        plot_attention(client.attend(TEXT), tmp_path / "out.png", head=2)
    with pytest.raises(ValueError, match="layer 3"):
        plot_attention(client.attend(TEXT), tmp_path / "out.png", layer=3)


@pytest.mark.parametrize(
    ("layers", "heads", "count", "inches", "step"),
    [
        (3, 6, 5, 2.6, 1),
        (3, 6, 28, 5.0, 1),
        (6, 12, 16, 2.5, 1),
        (6, 12, 25, 2.5, 2),
        (6, 12, 500, 2.5, 50),
        (20, 20, 200, 1.5, 50),
    ],
)
def test_labels_are_thinned_to_the_room_of_a_panel(
    layers: int, heads: int, count: int, inches: float, step: int
) -> None:
    side = panel_side(layers, heads, count)
    assert side == inches
    assert label_step(count, side - GRID_RIM, GRID_POINTS) == step


def test_maps_of_many_heads_have_labels_and_thinned_ones_have_numbers() -> None:
    weights = np.eye(25, dtype=np.float32)
    labels = [f"token{at}" for at in range(25)]
    figure = panels_of([[weights] * 12] * 2, range(2), range(12), labels, [False] * 25)
    figure.draw_without_rendering()
    panels = [axes for axes in figure.axes if axes.images]
    named = [f"token{at} {at}" for at in range(0, 25, 2)]
    assert panels[13].get_title() == "layer 1, head 1\nthe token itself, in this text"
    assert [tick.get_text() for tick in panels[0].get_yticklabels()] == named
    assert [tick.get_text() for tick in panels[-1].get_xticklabels()] == named
    titles = [axes.title.get_window_extent() for axes in panels[:12]]
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(titles))
    small = panels_of([[weights] * 20] * 2, range(2), range(20), labels, [False] * 25)
    assert small.axes[0].get_title() == "layer 0, head 0"
    boxes = [tick.get_window_extent() for tick in panels[0].get_yticklabels()]
    assert all(above.y0 > below.y1 for above, below in itertools.pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0  # inside the picture


def test_strong_weights_stay_visible_if_weights_outnumber_pixels() -> None:
    weights = np.zeros((7, 7), np.float32)
    weights[6, 0] = weights[2, 5] = 1
    np.testing.assert_array_equal(pooled(weights, 3), [[0, 1, 0], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(pooled(weights, 1), weights)
    image = draw(Figure().add_subplot(), weights, top=1.0, dots=3)
    np.testing.assert_array_equal(image.get_array(), pooled(weights, 3))
    assert tuple(image.get_extent()) == (-0.5, 8.5, 8.5, -0.5)  # three squares of three tokens


def test_too_many_maps_are_refused(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "MAX_PANELS", 5)
    with pytest.raises(
        ValueError, match=r"3 × 2 maps are too many for one picture \(5\); choose a layer"
    ):
        plot_attention(client.attend(TEXT), tmp_path / "out.png")
