from __future__ import annotations

import struct
from pathlib import Path

import pytest

from headlight import Client
from headlight.plot import DOTS_PER_INCH, plot_attention

TEXT = "price $x$ of 日本 \\frac"


def png_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert content.endswith(b"IEND\xaeB`\x82")
    width, height = struct.unpack(">II", content[16:24])
    return width, height


@pytest.mark.parametrize(
    ("layer", "head", "inches"),
    [(None, None, (2 * 2.6 + 1.8, 3 * 2.6 + 1.2)), (1, None, (2 * 2.6 + 1.8, 2.6 + 1.2)), (-1, -1, (6.0, 5.0))],
)
def test_a_picture_has_the_size_of_its_panels(
    client: Client, tmp_path: Path, layer: int | None, head: int | None, inches: tuple[float, float]
) -> None:
    path = tmp_path / "out.png"
    plot_attention(client.attend(TEXT), path, layer=layer, head=head, text=TEXT)
    assert png_size(path) == tuple(round(DOTS_PER_INCH * side) for side in inches)


def test_a_choice_that_is_not_there_is_refused(client: Client, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="head 2"):
        plot_attention(client.attend(TEXT), tmp_path / "out.png", head=2)
    with pytest.raises(ValueError, match="layer 3"):
        plot_attention(client.attend(TEXT), tmp_path / "out.png", layer=3)
