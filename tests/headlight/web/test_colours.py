"""The colours of heads: seen on the page, and told apart with and without full colour vision."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from headlight.web.assets import asset

# Machado, Oliveira & Fernandes 2009, severity 1, on linear RGB.
VISION: dict[str, list[list[float]]] = {
    "full": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [
        [0.3673, 0.8606, -0.2280],
        [0.2801, 0.6725, 0.0474],
        [-0.0118, 0.0429, 0.9689],
    ],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
LMS = [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
OKLAB = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]


def linear(colours: list[str]) -> NDArray[np.float64]:
    """sRGB in hexadecimal to linear RGB."""
    raw = np.array([[int(each[at : at + 2], 16) / 255 for at in (1, 3, 5)] for each in colours])
    return np.where(raw <= 0.04045, raw / 12.92, ((raw + 0.055) / 1.055) ** 2.4)


def palette(theme: str) -> list[str]:
    script = asset("colour.js")
    listed = re.search(rf"LINES = {{.*?{theme}: (\[.*?\])", script, re.DOTALL)
    assert listed
    colours: list[str] = json.loads(re.sub(r",\s*\]", "]", listed[1]))
    return colours


@pytest.mark.parametrize(("theme", "paper"), [("light", "#ffffff"), ("dark", "#0f1216")])
def test_twelve_heads_have_colours_that_differ_and_are_seen(theme: str, paper: str) -> None:
    assert f"--paper: {paper}" in asset("page.css")
    colours = palette(theme)
    assert len(set(colours)) == 12
    luminance = linear([paper, *colours]) @ [0.2126, 0.7152, 0.0722] + 0.05
    contrast = np.maximum(luminance[1:] / luminance[0], luminance[0] / luminance[1:])
    assert contrast.min() >= 3  # WCAG 1.4.11
    for vision, matrix in VISION.items():
        seen = np.clip(linear(colours) @ np.transpose(matrix), 0, 1)
        places = np.cbrt(seen @ np.transpose(LMS)) @ np.transpose(OKLAB)
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1) + np.eye(12)
        assert apart.min() >= (0.14 if vision == "full" else 0.07), vision
