"""A comparison as text: its marks, colours and lines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from headlight import ModelRef
from headlight.analysis.terminal_view import cells
from headlight.cli.compare.comparison_output import comparison_text, others_text
from headlight.comparison import Comparison, Evidence, PassageComparison, UnitWeights
from headlight.results import TokenList
from headlight.spec import Span

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
REF = ModelRef("m", "1", "ab", "cpu", "fp32")


def drawn(text: str, weights: list[float], **options: Any) -> str:
    """Return the lines of one passage with a weight for each of its words."""
    return whole(text, weights, **options).split("\n\n")[1].partition("\n")[2]


def whole(
    text: str,
    weights: list[float],
    *,
    best: int = 1,
    width: int = 80,
    colour: bool = False,
    spans: list[tuple[int, int]] | None = None,
) -> str:
    """Return the query, the passage and the legend."""
    found = spans or [each.span() for each in re.finditer(r"\S+", text)]
    evidence = Evidence(
        "occlusion",
        tuple((at,) for at in range(len(found))),
        tuple(Span(start, end) for start, end in found),
        np.array(weights, np.float32),
    )
    passage = PassageComparison(0, 0.5, 0.25, (evidence,))
    comparison = Comparison("cosine", (passage,), None, (), REF)
    return comparison_text(comparison, "q", [text], ["f, line 1"], "word", best, width, colour)


def test_the_largest_weights_above_zero_are_marked() -> None:
    assert drawn("a bc d", [0.1, 0.3, 0.2]) == "   a **bc** d"
    assert drawn("a bc d", [0.1, 0.3, 0.2], best=2) == "   a **bc** **d**"
    assert drawn("a bc d", [-0.1, 0, -0.3], best=3) == "   a bc d"


def test_neighbours_share_their_marks() -> None:
    assert drawn("abc", [1, 0.5], best=2, spans=[(0, 1), (1, 3)]) == "   **abc**"


def test_colours_rise_with_the_weight() -> None:
    shown = drawn("a b c d", [0.25, 1, 0.5, -1], colour=True)
    levels = [int(found) for found in re.findall(r"48;5;(\d+)m", shown)]
    assert len(levels) == 3
    assert levels[0] < levels[2] < levels[1]
    assert ESCAPE.sub("", shown) == "   a b c d"
    assert shown.count("\x1b[1;4;") == 1  # the best is bold
    assert shown.endswith(" d")  # below 0: no colour


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("text", ["word " * 60, "x" * 300, "日本語の文 " * 30, "ab" * 50 + " c"])
def test_lines_fit_the_width_and_lose_nothing(text: str, colour: bool) -> None:
    count = len(text.split())
    shown = ESCAPE.sub("", drawn(text, [1.0] * count, best=count, width=50, colour=colour))
    lines = shown.splitlines()
    assert len(lines) > 1
    assert max(map(cells, lines)) <= 50
    assert "".join(shown.split()).replace("*", "") == "".join(text.split())


@pytest.mark.parametrize("colour", [False, True])
def test_the_legend_breaks_between_words(colour: bool) -> None:
    wide, narrow = (
        ESCAPE.sub("", whole("a b", [1.0, 0.5], width=width, colour=colour)).split("\n\n")[-1]
        for width in (200, 40)
    )
    assert max(map(cells, narrow.splitlines())) <= 40
    assert narrow.split() == wide.split()


def test_no_character_drives_the_terminal() -> None:
    shown = drawn(
        "a\x1b]0;b\x07 \u202ec\u2028d\te", [1, 0, 0, 0], spans=[(0, 1), (8, 10), (10, 11), (12, 13)]
    )
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", shown)
    assert shown == "   **a**�]0;b� �c d e"


def test_of_many_other_tokens_the_largest_are_shown_and_the_sum_of_the_rest() -> None:
    weights = np.array([0.1, 0.2, 0.01, 0.02, 0.1, 0.1, 0.1, 0.1], np.float32)
    special = UnitWeights(tuple((at,) for at in range(8)), (), weights)
    none = (0,) * 8
    tokens = TokenList(tuple(range(8)), tuple("abcdefgh"), none, none, (True,) * 8, none)
    text = "other tokens: a 0.100, b 0.200, e 0.100, f 0.100, g 0.100, h 0.100, 2 more 0.030"
    assert others_text(special, tokens) == text


def test_tokens_of_one_character_are_shown_once() -> None:
    assert drawn("a👩b", [0.1, 1, 1, 0.1], spans=[(0, 1), (1, 2), (1, 2), (2, 3)]) == "   a**👩**b"
