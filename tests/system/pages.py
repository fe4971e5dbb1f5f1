"""Shared helpers for tests of the page: texts, and values read from a page."""

from __future__ import annotations

import json

from headlight.analysis.map_titles import map_title
from headlight.results import Attention, Floats
from tests.system.browser import Browser

SHORT = "read a file"
MIDDLE = "def read(path): return json.loads(open(path).read()) if path else None"
LONG = "\n".join(
    f"def read_{name}(path, mode): return json.loads(open(path, mode).read())"
    for name in "abcdefgh"
)
# Reads a copy: Chromium warns about canvases that are alternately drawn and read.
INK = """
(() => { const canvas = document.createElement("canvas"), shown = document.querySelector(SELECTOR);
  [canvas.width, canvas.height] = [shown.width, shown.height];
  const copy = canvas.getContext("2d", { willReadFrequently: true });
  copy.drawImage(shown, 0, 0);
  const pixels = copy.getImageData(0, 0, canvas.width, canvas.height).data;
  let hash = 0, inked = 0;
  for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3]) {
    const colour = pixels[at] + 3 * pixels[at + 1] + 7 * pixels[at + 2];
    inked += 1; hash = (hash * 31 + at + colour) % 1000000007; }
  return [inked, hash]; })()
"""


def ink(browser: Browser, selector: str) -> tuple[int, int]:
    """Return the number of drawn pixels of a canvas, and a checksum of all pixels."""
    inked, digest = browser.evaluate(INK.replace("SELECTOR", json.dumps(selector)))
    return inked, digest


def head_title(attention: Attention, layer: int, head: int) -> str:
    """Return the title of a head on a page of this attention, with its kind."""
    weights = attention.head(layer, head)
    return map_title(layer, head, weights, attention.tokens.special).capitalize()


def as_shown(weights: Floats) -> list[str]:
    """Return three decimals; empty beside a token whose weight would be 0.000."""
    return [f"{weight:.3f}" if weight >= 0.0005 else "" for weight in weights]


def shown_weights(browser: Browser, column: str) -> list[str]:
    """Return the numbers beside the tokens of a column."""
    found: list[str] = browser.evaluate(
        f"[...document.querySelectorAll('#{column} .weight')].map((each) => each.textContent)"
    )
    return found
