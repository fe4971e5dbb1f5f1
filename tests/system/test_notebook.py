"""Attention in a notebook, in a real browser: the page draws in its frame, without network."""

from __future__ import annotations

import io
from pathlib import Path

import matplotlib.image
import numpy as np

from headlight import Attention
from tests.system.browser import Browser
from tests.system.pages import MIDDLE

MOST_FRAMES = 100  # until a frame in a process of its own is drawn
LINES = 10_000  # coloured pixels of the lines; the marks of the eight heads alone have 1,600


def coloured(browser: Browser) -> int:
    """Number of pixels in strong colours: the lines of a head, and the marks of the heads."""
    picture = matplotlib.image.imread(io.BytesIO(browser.picture()))
    return int((np.ptp(picture[..., :3], axis=-1) > 0.5).sum())


def test_the_page_draws_in_the_frame_of_a_notebook(
    browser: Browser, attentions: dict[str, Attention], tmp_path: Path
) -> None:
    cell = f'<meta charset="utf-8"><h1>A cell</h1>{attentions[MIDDLE]._repr_html_()}'
    still, alive = tmp_path / "still.html", tmp_path / "alive.html"
    still.write_text(cell.replace("allow-scripts", ""), encoding="utf-8")
    alive.write_text(cell, encoding="utf-8")
    browser.open(still)
    assert not any(coloured(browser) for _ in range(3))
    browser.open(alive)
    assert any(coloured(browser) > LINES for _ in range(MOST_FRAMES))
    assert browser.evaluate("document.querySelector('iframe').contentDocument") is None
