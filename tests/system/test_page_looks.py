"""Appearance of the page of `headlight attend --html`.

In both themes, at every width, and with hostile tokens.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from headlight import Attention, ModelRef, TokenList
from headlight.web.page import attention_page
from tests.system.browser import Browser
from tests.system.pages import LONG, MIDDLE, SHORT, ink


@pytest.mark.parametrize("view", ["head", "model", "matrix"])
def test_the_page_has_two_themes_and_a_switch(
    view: str, browser: Browser, pages: dict[str, Path]
) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    canvas = {"head": "#lines", "model": ".thumb canvas", "matrix": "#cells"}[view]
    seen = {}
    for dark in (False, True):
        browser.screen(1280, 900, dark=dark)
        browser.open(pages[MIDDLE], f"#view={view}")
        seen[dark] = browser.evaluate(background), ink(browser, canvas)
    browser.click("#theme")  # system -> light, on a dark screen
    assert (browser.evaluate(background), ink(browser, canvas)) == seen[False]
    assert seen[False][0] == "rgb(255, 255, 255)"
    assert seen[True][0] != seen[False][0]
    assert seen[True][1] != seen[False][1]
    browser.screen(1280, 900)


@pytest.mark.parametrize("view", ["head", "model", "matrix"])
@pytest.mark.parametrize(("width", "text"), [(360, SHORT), (360, LONG), (1280, LONG)])
def test_no_element_overflows_the_window(
    width: int, view: str, text: str, browser: Browser, pages: dict[str, Path]
) -> None:
    browser.screen(width, 800)
    browser.open(pages[text], f"#view={view}")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    browser.screen(1280, 900)


def test_hostile_tokens_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='owned'\">"
    pieces = (
        "</script>" + evil,
        evil,
        "<!--<script>",
        "${script}",
        "\u202eabc",
        "",
        "x" * 5000,
        "שלום",
        "日本語",
        "👩‍👩‍👧",
    )
    count = len(pieces)
    weights = np.full((1, 2, count, count), 1 / count, np.float32)
    tokens = TokenList(
        tuple(range(count)), pieces, (0,) * count, (0,) * count, (False,) * count, (0,) * count
    )
    path = tmp_path / "hostile.html"
    page = attention_page(
        Attention(weights, (0,), tokens, ModelRef(evil, evil, evil, evil, evil)), evil
    )
    path.write_text(page, encoding="utf-8")
    for view in ("head", "matrix", "model"):
        browser.screen(360, 800)
        browser.open(path, f"#view={view}&token=k0")
        assert browser.evaluate("document.querySelectorAll('img').length") == 0
        assert browser.evaluate("document.documentElement.scrollWidth") <= 360
        assert browser.evaluate("document.title") == f"Attention of {evil}"
    browser.screen(1280, 900)
    browser.open(path)
    labels = browser.evaluate(
        "[...document.querySelectorAll('#keys .label')].map((each) => each.textContent)"
    )
    assert labels[0] == pieces[0].replace(" ", "␣")
    assert labels[4:6] == ["�abc", "#5"]
    heights = browser.evaluate(
        "[...document.querySelectorAll('.token')].map((each) => each.offsetHeight)"
    )
    assert len(set(heights)) == 1
