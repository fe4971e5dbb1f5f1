from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from headlight import Client
from headlight.analysis import plot
from headlight.analysis.plot import DOTS_PER_INCH, draw, panel_side, plot_attention, pooled

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
    ("layers", "heads", "count", "expected"),
    [
        (3, 6, 5, (2.6, 7)),
        (3, 6, 28, (5.0, 7)),
        (3, 6, 200, (3.0, 0)),
        (2, 14, 30, (30 / 14, 0)),  # labels would make it 74 inches wide
        (20, 20, 200, (1.5, 0)),
    ],
)
def test_panels_have_room_for_their_labels_or_omit_them(
    layers: int, heads: int, count: int, expected: tuple[float, float]
) -> None:
    assert panel_side(layers, heads, count) == expected


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
