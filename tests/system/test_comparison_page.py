"""The page of `headlight compare --html` in a real browser, written over a real service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headlight import Client
from headlight.cli.commands import main
from headlight.comparison import Comparison
from headlight.evidence_methods import UNIT_METHODS
from headlight.runtime import Runtime
from headlight.web.comparison_page import comparison_page
from tests import scorers
from tests.system.browser import Browser
from tests.system.processes import Service

QUERY = "read a json file"
PASSAGES = (
    "def load(path): return json.loads(open(path).read())",
    "Then 👩‍👩‍👧 read it <img src=x onerror=alert(1)><script>alert(2)</script>",
    "שלום read a file עולם",
    "e\u0301te\u0301 \u202eopen a file\u202c and read its lines",
    "parse a date",
)
BUTTONS = "#compared-query [role=button]"


def drawn(text: str) -> str:
    """Return a text without marks that change the direction of what follows."""
    return text.replace("\u202e", "�").replace("\u202c", "�")


@pytest.fixture(scope="module")
def compared(rope: Service) -> Comparison:
    with Client(rope.target) as client:
        return client.compare(
            QUERY, PASSAGES, late_interaction=True, evidence=UNIT_METHODS, sort=True
        )


@pytest.fixture(scope="module")
def written(rope: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page that the command line writes."""
    folder = tmp_path_factory.mktemp("comparison")
    passages, page = folder / "passages.txt", folder / "compared.html"
    passages.write_text("\n".join(PASSAGES), encoding="utf-8")
    methods = [f"--method={each.replace('_', '-')}" for each in UNIT_METHODS]
    command = ["compare", QUERY, str(passages), "--target", rope.target, "--html", str(page)]
    assert main([*command, *methods]) == 0
    return page


def matched(browser: Browser) -> list[str]:
    """Return the marked characters of each passage."""
    found: list[str] = browser.evaluate(
        "[...document.querySelectorAll('.passage')].map((each) =>"
        " [...each.querySelectorAll('.matched')].map((part) => part.textContent).join(''))"
    )
    return found


def shown(number: float) -> str:
    return f"{number:.3f}".replace("-", "−")


def test_passages_come_by_score_below_the_query(
    browser: Browser, written: Path, compared: Comparison
) -> None:
    browser.open(written)
    assert browser.text("#compared-query") == QUERY
    expected = [drawn(PASSAGES[each.index]) for each in compared]
    assert browser.texts(".passage-text") == expected
    heads = [
        f"score {shown(each.score)}max-sim {shown(each.max_sim_mean or 0)}" for each in compared
    ]
    for head, expect in zip(browser.texts(".passage-head"), heads, strict=True):
        assert expect in head


def test_pointing_at_a_token_of_the_query_marks_what_it_matched(
    browser: Browser, written: Path, compared: Comparison
) -> None:
    browser.open(written)
    assert matched(browser) == [""] * len(PASSAGES)
    for number in range(4):
        browser.move(f"{BUTTONS}:nth-child({2 * number + 1})")
        said = browser.texts(".match")
        for at, passage in enumerate(compared):
            evidence = passage.evidence_by("late_interaction")
            assert passage.tokens is not None
            assert evidence.matched_cosines is not None
            token = evidence.matched_tokens[number]
            start, end = passage.tokens.starts[token], passage.tokens.ends[token]
            assert drawn(PASSAGES[passage.index][start:end]) in matched(browser)[at]
            assert f"cosine {shown(evidence.matched_cosines[number])}." in said[at]
    browser.move("h1")
    assert matched(browser) == [""] * len(PASSAGES)
    assert browser.text("#match-said") == ""


def test_offsets_count_code_points_and_emoji_stay_whole(browser: Browser, written: Path) -> None:
    browser.open(written)
    browser.move(f"{BUTTONS}:first-child")
    for text, mark in zip(browser.texts(".passage-text"), matched(browser), strict=True):
        if "read" in text:
            assert mark == "read"
    # The model has a token for each code point of these.
    assert {"👩‍👩‍👧", "e\u0301t", "e\u0301"} <= set(browser.texts(".passage-text span"))


def test_the_keyboard_moves_pins_and_releases(browser: Browser, written: Path) -> None:
    browser.open(written)
    for _ in range(6):  # theme, method, numbers
        browser.press("Tab")
        if browser.evaluate("document.activeElement.getAttribute('role')") == "button":
            break
    first = matched(browser)
    assert any(first)
    browser.press("ArrowRight")
    assert browser.evaluate("document.activeElement.textContent") == "a"
    second = matched(browser)
    assert second != first
    browser.press("Enter")
    assert browser.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    browser.move(f"{BUTTONS}:first-child")
    assert matched(browser) == first
    browser.move("h1")
    assert matched(browser) == second  # the pinned one
    browser.press("Escape")
    assert matched(browser) == [""] * len(PASSAGES)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_method_has_its_weights_and_numbers(
    number: int, browser: Browser, written: Path, compared: Comparison
) -> None:
    browser.open(written)
    browser.click(f"#methods label:nth-of-type({number})")
    browser.click("#numbers")
    method = UNIT_METHODS[number - 1]
    said = browser.text("#method-said")
    assert ("not an explanation" in said) == (method == "attention")
    rows: list[list[list[str]]] = browser.evaluate(
        "[...document.querySelectorAll('.numbers .wide-table:first-child')].map((table) =>"
        " [...table.querySelectorAll('tbody tr')].map((row) =>"
        " [...row.cells].map((cell) => cell.textContent)))"
    )
    top = max(float(abs(each.evidence_by(method).weights).max()) for each in compared)
    assert browser.text("#weight-top") == shown(top)
    for passage, found in zip(compared, rows, strict=True):
        evidence = passage.evidence_by(method)
        order = evidence.largest(len(evidence.units))
        assert [row[1] for row in found] == [
            f"{evidence.characters[at].start}–{evidence.characters[at].end}" for at in order
        ]
        assert [row[2] for row in found] == [shown(evidence.weights[at]) for at in order]
    lines: list[Any] = browser.evaluate(
        "[...document.querySelectorAll('.passage')].map((each) =>"
        " [...each.querySelectorAll('.unit')].map((unit) =>"
        " [unit.classList.contains('below'), Number(unit.style.getPropertyValue('--share'))]))"
    )
    assert max(share for units in lines for _, share in units) == 1
    below = any(each.evidence_by(method).weights.min() < 0 for each in compared)
    assert any(negative for units in lines for negative, _ in units) == below
    assert browser.evaluate("document.querySelector('#below-zero').checkVisibility()") == below
    browser.click("#numbers")
    assert browser.texts(".numbers") == []


def test_the_best_units_are_underlined(
    browser: Browser, written: Path, compared: Comparison
) -> None:
    browser.open(written)
    underlined: list[str] = browser.evaluate(
        "[...document.querySelectorAll('.passage')].map((each) =>"
        " [...each.querySelectorAll('.best')].map((part) => part.textContent).join(''))"
    )
    for passage, found in zip(compared, underlined, strict=True):
        evidence = passage.evidence[0]
        best = sorted(at for at in evidence.largest(3) if evidence.weights[at] > 0)
        spans = [evidence.characters[at] for at in best]
        assert found == "".join(PASSAGES[passage.index][each.start : each.end] for each in spans)


def test_texts_are_shown_as_text(browser: Browser, written: Path) -> None:
    browser.screen(360, 800)
    browser.open(written)
    browser.click("#numbers")
    assert browser.evaluate("document.images.length") == 0
    assert browser.evaluate("document.scripts.length") == 2
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("dark", [False, True])
def test_letters_contrast_with_every_background(
    dark: bool, browser: Browser, written: Path
) -> None:
    browser.screen(1200, 900, dark=dark)
    browser.open(written)
    ink, *backgrounds = browser.evaluate(
        "(() => { const probe = document.createElement('i'); document.body.append(probe);"
        " return ['--ink', '--paper', '--above', '--below', '--mark'].map((name) => {"
        " const value = getComputedStyle(document.documentElement).getPropertyValue(name);"
        " probe.style.color = value.trim().startsWith('#') ? value : `rgb(${value})`;"
        " return getComputedStyle(probe).color.match(/\\d+/g).map(Number); }); })()"
    )
    assert len({tuple(each) for each in backgrounds}) == 4
    for background in backgrounds:
        assert contrast(ink, background) >= 4.5


def contrast(one: list[int], other: list[int]) -> float:
    """Return the contrast of WCAG 2."""
    low, high = sorted(
        sum(
            share * (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
            for share, part in zip(
                (0.2126, 0.7152, 0.0722), (value / 255 for value in colour), strict=True
            )
        )
        for colour in (one, other)
    )
    return (high + 0.05) / (low + 0.05)


def test_a_theme_can_be_chosen(browser: Browser, written: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    browser.screen(1200, 900, dark=True)
    browser.open(written)
    dark = browser.evaluate(background)
    browser.click("#theme")
    assert browser.text("#theme") == "Theme: light"
    assert browser.evaluate(background) == "rgb(255, 255, 255)"
    browser.click("#theme")
    assert browser.evaluate(background) == dark != "rgb(255, 255, 255)"


def test_in_a_query_from_right_to_left_the_left_arrow_moves_ahead(
    browser: Browser, rope: Service, tmp_path: Path
) -> None:
    query = "שלום עולם"
    with Client(rope.target) as client:
        found = client.compare(query, ["read"], evidence="late_interaction")
    path = tmp_path / "rtl.html"
    path.write_text(comparison_page(found, query, ["read"]), encoding="utf-8")
    browser.open(path)
    browser.evaluate(f"document.querySelector('{BUTTONS}').focus()")
    first = browser.evaluate("document.activeElement.getBoundingClientRect().x")
    browser.press("ArrowLeft")
    assert browser.evaluate("document.activeElement.getBoundingClientRect().x") < first


def test_without_late_interaction_the_query_is_plain_text(
    browser: Browser, rope: Service, tmp_path: Path
) -> None:
    with Client(rope.target) as client:
        found = client.compare("read", ["read a file"], evidence="attention")
    path = tmp_path / "attention.html"
    path.write_text(comparison_page(found, "read", ["read a file"]), encoding="utf-8")
    browser.open(path)
    assert browser.texts(BUTTONS) == []
    assert not browser.evaluate("document.querySelector('#query-said').checkVisibility()")
    assert not browser.evaluate("document.querySelector('#methods').checkVisibility()")
    assert browser.texts(".unit") == ["read", "a", "file"]


def test_shared_terms_are_listed_and_occlusion_has_units(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    with Runtime(scorers.bundle(tmp_path_factory, "sparse"), threads=1) as runtime:
        found = runtime.compare("read", ["read a file", "b"], evidence=["terms", "occlusion"])
    path = tmp_path / "terms.html"
    path.write_text(comparison_page(found, "read", ["read a file", "b"]), encoding="utf-8")
    browser.open(path)
    scale = "document.querySelector('.scale').checkVisibility()"
    for line, each in zip(browser.texts(".terms"), found, strict=True):
        terms, products = each.evidence[0].terms, each.evidence[0].weights
        assert terms is not None
        first = f"{shown(products[0])} ({shown(terms.query[0])} × {shown(terms.passage[0])})"
        assert line.startswith(f"Terms: {terms.pieces[0]} {first}, ")
        assert line.endswith(f"{len(products) - 10} more {shown(products[10:].sum())}")
    assert not browser.evaluate(scale)
    browser.click("#numbers")
    count = "document.querySelectorAll('.passage:first-child tbody tr').length"
    assert browser.evaluate(count) == len(found.passages[0].evidence[0].weights)
    browser.click("#method-choices input[value=occlusion]")
    assert browser.texts(".terms") == []
    assert browser.evaluate(scale)
    assert "readafile" in "".join(browser.texts(".unit"))
