"""The page of `headlight attend --html` in a real browser.

Clicks, pointer and keys change the drawing.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from headlight import Attention
from headlight.analysis.map_titles import kind_label
from headlight.cli.commands import main
from tests.shipped import HEADS, LAYERS
from tests.system.browser import Browser
from tests.system.pages import LONG, MIDDLE, SHORT, as_shown, head_title, ink, shown_weights
from tests.system.processes import Service


def test_the_command_line_writes_a_page_that_opens_at_the_head_asked_for(
    rope: Service, browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "a page.html"
    assert main(["attend", SHORT, "--target", rope.target, "--html", str(path), "--head", "3"]) == 0
    browser.open(path)
    assert browser.text("#detail h2") == f"Layer {LAYERS - 1}, head 3"
    assert browser.evaluate("document.querySelectorAll('#layers input').length") == LAYERS
    assert ink(browser, "#lines")[0] > 500


def test_it_opens_at_the_strongest_link_between_distant_words(
    browser: Browser, pages: dict[str, Path], attentions: dict[str, Attention]
) -> None:
    attention = attentions[MIDDLE]
    labels = attention.tokens.labels(MIDDLE)
    words = np.array([any(map(str.isalnum, label)) for label in labels])
    words &= ~np.array(attention.tokens.special)
    places = np.arange(len(labels))
    factors = np.log1p(np.minimum(abs(places[:, None] - places), 8)) * words[:, None] * words
    linked = attention.weights * factors
    layer, head, query, key = map(int, np.unravel_index(linked.argmax(), linked.shape))
    browser.open(pages[MIDDLE])
    assert browser.text("#detail h2") == head_title(attention, layer, head)
    link = [f"{at} “{labels[at]}”" for at in (query, key)]
    weight = attention.weights[layer, head, query, key]
    shown = browser.text("#detail")
    assert f"the strongest link: {link[0]} → {link[1]}, {weight:.3f}." in shown
    browser.click(f"#layers label:nth-child({(layer + 1) % LAYERS + 1})")
    assert "strongest link" not in browser.text("#detail")


def test_titles_of_single_heads_have_the_kind_in_this_text(
    browser: Browser, pages: dict[str, Path], attentions: dict[str, Attention]
) -> None:
    browser.open(pages[MIDDLE])
    for layer, head in np.ndindex(LAYERS, HEADS):
        browser.click(f"#layers label:nth-child({layer + 1})")
        browser.click(f"#heads label:nth-child({head + 1})")
        expected = head_title(attentions[MIDDLE], layer, head)
        assert browser.text("#detail h2") == expected
    browser.open(pages[MIDDLE], "#view=model")
    browser.move("#thumbs button")
    assert browser.text("#zoom").startswith(
        "Layer 0, head 0 (previous token, in this text): greatest weight"
    )
    browser.open(pages[SHORT], "#layer=0&head=0")
    assert browser.text("#detail h2") == "Layer 0, head 0"


def test_a_click_on_a_head_or_a_layer_changes_the_lines(
    browser: Browser, pages: dict[str, Path]
) -> None:
    expected = {}
    last = LAYERS - 1
    for layer, head in ((last, 0), (last, 3), (0, 3)):
        browser.open(pages[MIDDLE], f"#layer={layer}&head={head}")
        expected[layer, head] = ink(browser, "#lines")
    assert len(set(expected.values())) == len(expected)
    assert min(inked for inked, _ in expected.values()) > 500
    browser.open(pages[MIDDLE], f"#layer={last}&head=0")
    browser.click("#heads label:nth-child(4)")
    assert ink(browser, "#lines") == expected[last, 3]
    browser.click("#layers label:nth-child(1)")
    assert ink(browser, "#lines") == expected[0, 3]
    assert browser.text("#detail h2").partition(":")[0] == "Layer 0, head 3"


def test_several_heads_can_be_shown_at_once(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages[MIDDLE], "#layer=1&head=2")
    alone = ink(browser, "#lines")[0]
    browser.click("#several")
    browser.click("#heads label:nth-child(5)")
    assert browser.text("#detail h2") == "Layer 1, heads 2, 4"
    assert ink(browser, "#lines")[0] > alone
    browser.click("#all-heads")
    assert browser.text("#detail h2") == f"Layer 1, all {HEADS} heads"
    assert browser.evaluate("location.hash").startswith(
        f"#view=head&layer=1&head={','.join(map(str, range(HEADS)))}"
    )


def test_hovering_a_query_shows_its_weights_and_a_click_keeps_them(
    browser: Browser, pages: dict[str, Path], attentions: dict[str, Attention]
) -> None:
    browser.open(pages[SHORT], "#layer=0&head=1")
    all_lines = ink(browser, "#lines")
    browser.move("#query-3")
    expected = as_shown(attentions[SHORT].head(0, 1)[3])
    assert shown_weights(browser, "keys") == expected
    assert shown_weights(browser, "queries") == [""] * 5
    assert ink(browser, "#lines") != all_lines
    browser.move("h1")
    assert ink(browser, "#lines") == all_lines
    browser.click("#query-3")
    browser.move("h1")
    assert shown_weights(browser, "keys") == expected
    assert browser.text("#detail h2") == "Query 3 “file”"
    browser.press("Escape")
    assert shown_weights(browser, "keys") == [""] * 5
    browser.move("#key-0")
    assert shown_weights(browser, "queries") == as_shown(attentions[SHORT].head(0, 1)[:, 0])


def test_the_keyboard_reaches_tokens_and_heads(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages[SHORT], "#layer=0&head=0")
    browser.evaluate("document.querySelector('#query-0').focus()")
    browser.press("ArrowDown")
    assert browser.text("#detail h2") == "Query 1 “read”"
    browser.press("ArrowRight")
    browser.press("Enter")
    assert browser.text("#detail h2") == "Key 1 “read”"
    assert (
        browser.evaluate("document.querySelector('#key-1').getAttribute('aria-selected')") == "true"
    )
    browser.press("Escape")
    browser.evaluate("document.querySelector('#heads input').focus()")
    before = ink(browser, "#lines")
    browser.press("ArrowRight")
    assert browser.evaluate("document.querySelector('#heads input:checked').value") == "1"
    assert ink(browser, "#lines") != before


def test_special_tokens_can_be_hidden_with_a_note(
    browser: Browser, pages: dict[str, Path], attentions: dict[str, Attention]
) -> None:
    browser.open(pages[SHORT], "#layer=1&head=0")
    browser.click("#hide-special")
    assert browser.evaluate("document.querySelectorAll('#queries .token').length") == 3
    assert "2 special tokens are hidden, nothing is computed anew" in browser.text("#said")
    browser.click("#query-1")
    row = attentions[SHORT].head(1, 0)[1]
    assert shown_weights(browser, "keys") == as_shown(row[1:4])
    assert f"{row[0] + row[4]:.3f} of this row is on special tokens" in browser.text("#detail")


def test_the_slider_and_line_limit_state_what_they_omit(
    browser: Browser, pages: dict[str, Path], attentions: dict[str, Attention]
) -> None:
    weights = attentions[LONG].head(2, 1)
    assert len(weights) > 150
    browser.open(pages[LONG], "#layer=2&head=1&most=0&least=0.25")
    assert browser.text("#said").startswith(
        f"{(weights >= 0.25 - 1e-4).sum()} of {weights.size:,} weights drawn: all, if"
    )
    browser.open(pages[LONG], "#layer=2&head=1&most=1&least=0")
    assert browser.text("#said").startswith(
        f"{len(weights)} of {weights.size:,} weights drawn: the strongest of each"
    )


def test_scrolling_draws_the_lines_that_come_into_sight(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages[LONG], "#layer=2&head=2")
    assert browser.evaluate("document.querySelector('#lines').height") < 900
    top = ink(browser, "#lines")
    browser.evaluate("document.querySelector('#scroller').scrollTop = 1500")
    browser.settle()
    assert ink(browser, "#lines") != top
    assert ink(browser, "#lines")[0] > 500


def test_a_thumbnail_opens_its_head(
    browser: Browser, pages: dict[str, Path], attentions: dict[str, Attention]
) -> None:
    browser.open(pages[MIDDLE], "#view=model")
    drawn = [
        ink(browser, f".thumb[data-layer='{layer}'][data-head='{head}'] canvas")
        for layer, head in ((0, 1), (2, 5))
    ]
    assert drawn[0] != drawn[1]
    browser.click(".thumb[data-layer='1'][data-head='7']")
    assert browser.text("#detail h2") == head_title(attentions[MIDDLE], 1, 7)
    assert browser.evaluate("document.querySelector('#head-view').hidden") is False
    opened = ink(browser, "#lines")
    browser.open(pages[MIDDLE], "#layer=1&head=7")
    assert ink(browser, "#lines") == opened


def test_a_map_is_larger_under_the_pointer_and_with_the_keyboard(
    browser: Browser, pages: dict[str, Path], attentions: dict[str, Attention]
) -> None:
    hidden = "document.querySelector('#zoom').hidden"
    browser.open(pages[MIDDLE], "#view=model")
    assert browser.evaluate(hidden) is True
    browser.move(".thumb[data-layer='1'][data-head='7']")
    greatest = attentions[MIDDLE].head(1, 7).max()
    kind = kind_label(attentions[MIDDLE].head(1, 7), attentions[MIDDLE].tokens.special)
    title = f"Layer 1, head 7 ({kind}, in this text)"
    assert f"{title}: greatest weight {greatest:.3f}," in browser.text("#zoom")
    seen = ink(browser, "#zoom canvas")
    assert seen[0] > 50_000
    browser.move("h1")
    assert browser.evaluate(hidden) is True
    browser.evaluate("document.querySelector(\".thumb[data-layer='0'][data-head='6']\").focus()")
    browser.press("ArrowRight")
    browser.press("ArrowDown")
    assert "Layer 1, head 7" in browser.text("#zoom")
    assert ink(browser, "#zoom canvas") == seen
    assert browser.evaluate(
        "[document.querySelector('#zoom'), document.activeElement].map((each) =>"
        " each.getBoundingClientRect()).every((box) => box.x >= 0 && box.right <= innerWidth)"
    )
    browser.press("Escape")
    assert browser.evaluate(hidden) is True
    browser.press("Enter")
    assert browser.text("#detail h2") == head_title(attentions[MIDDLE], 1, 7)


def test_what_a_long_text_leaves_out_is_said_and_never_shown_as_0(
    browser: Browser, pages: dict[str, Path], attentions: dict[str, Attention]
) -> None:
    weights = attentions[LONG].head(1, 3)
    assert pages[LONG].stat().st_size < 2e6
    browser.open(pages[LONG], "#layer=1&head=3&token=q5")
    floor = json.loads(browser.evaluate("document.querySelector('#data').textContent"))["floor"]
    assert 0 < floor < 0.01
    left_out = weights[weights < floor - 1e-4].sum() / len(weights)
    share = re.search(r"Weights below (\S+) are left out: .*, (\d+) % of", browser.text("#said"))
    assert share
    assert float(share[1]) == floor
    assert int(share[2]) == pytest.approx(100 * left_out, abs=2)
    row = weights[5]
    assert f"{(row < floor - 1e-4).sum()} of these are left out" in browser.text("#detail")
    shown = [weight for weight in shown_weights(browser, "keys") if weight]
    assert len(shown) == (row >= floor - 1e-4).sum()
    key = int((row < floor - 1e-4).argmax())
    browser.open(pages[LONG], "#view=matrix&layer=1&head=3")
    browser.evaluate("document.querySelector('#matrix').focus()")
    for arrow in ["ArrowDown"] * 6 + ["ArrowRight"] * key:  # the first goes to the first cell
        browser.press(arrow)
    assert browser.text("#detail dl").endswith(f"left out (below {floor:.4f})")
    assert f"Blank: left out, below {floor:.4f}." in browser.text("#scale-said")


def test_the_matrix_tells_the_weight_of_a_cell(
    browser: Browser, pages: dict[str, Path], attentions: dict[str, Attention]
) -> None:
    browser.open(pages[SHORT], "#view=matrix&layer=0&head=2")
    first = ink(browser, "#cells")
    browser.evaluate("document.querySelector('#matrix').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):  # the first key goes to the first cell
        browser.press(key)
    weight = attentions[SHORT].head(0, 2)[1, 1]
    assert browser.text("#detail dl").split() == [
        "query",
        "1",
        "“read”",
        "key",
        "1",
        "“read”",
        "weight",
        f"{weight:.3f}" if weight >= 0.0005 else "<0.001",
    ]
    browser.click("#heads label:nth-child(1)")
    assert ink(browser, "#cells") != first
