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


def colours(browser: Browser) -> int:
    """Number of colours on the screen: lines of many weights have many."""
    picture = matplotlib.image.imread(io.BytesIO(browser.picture()))
    return len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0))


def test_the_page_draws_in_the_frame_of_a_notebook(
    browser: Browser, attentions: dict[str, Attention], tmp_path: Path
) -> None:
    cell = f'<meta charset="utf-8"><h1>A cell</h1>{attentions[MIDDLE]._repr_html_()}'
    still, alive = tmp_path / "still.html", tmp_path / "alive.html"
    still.write_text(cell.replace("allow-scripts", ""), encoding="utf-8")
    alive.write_text(cell, encoding="utf-8")
    browser.open(still)
    bare = max(colours(browser) for _ in range(3))
    browser.open(alive)
    assert any(colours(browser) > 2 * bare for _ in range(MOST_FRAMES))
    assert browser.evaluate("document.querySelector('iframe').contentDocument") is None
