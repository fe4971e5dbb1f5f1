from __future__ import annotations

import re

import numpy as np
import pytest

from headlight.analysis.terminal_view import (
    attention_map,
    cells,
    fit,
    heads_table,
    legend,
    strongest_links,
    visible,
)
from headlight.results import Attention, Floats, ModelRef, TokenList

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def even(count: int) -> Floats:
    return np.full((count, count), 1 / count, np.float32)


def test_a_small_map_is_drawn() -> None:
    weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0, 0.3, 0.7]], np.float32)
    assert attention_map(weights, ["[CLS]", "a b", "x\n"]).splitlines() == [
        "         0 1 2",
        "0 [CLS] │██    │",
        "1 a␣b   │▒▒▒▒  │",
        "2 x↵    │  ░░▓▓│",
        "rows: queries, columns: keys; ░ ≥0.20 ▒ ≥0.40 ▓ ≥0.60 █ ≥0.80",
    ]


@pytest.mark.parametrize("width", [1, 57, 200])
@pytest.mark.parametrize("count", [1, 40, 41, 120])
@pytest.mark.parametrize("colour", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, count: int, colour: bool) -> None:
    labels = [("日本語" * 9)[: 1 + index % 20] for index in range(count)]
    lines = ESCAPE.sub(
        "", attention_map(even(count), labels, width=width, colour=colour)
    ).splitlines()
    rows = [line for line in lines if line.endswith("│")]
    assert max(map(cells, lines[: len(rows) + 1])) <= max(width, 40)
    assert len({cells(row) for row in rows}) == 1
    assert len(rows) <= 40
    assert (f"of {count} tokens" in lines[-1]) == (len(rows) < count)


def test_colours_are_reset_on_every_line() -> None:
    for line in attention_map(even(3), ["a", "b", "c"], colour=True).splitlines():
        assert ("\x1b[48" in line) == ("\x1b[0m" in line)
    assert "\x1b" not in attention_map(even(3), ["a", "b", "c"])


def test_control_characters_of_a_text_do_not_reach_the_terminal() -> None:
    assert visible("a\x1b[31m\u202e\r") == "a�[31m��"


def test_fit_counts_terminal_cells() -> None:
    assert [fit(text, 4) for text in ("ab", "abcd", "abcde", "日本", "日本語", "e\u0301")] == [
        "ab  ",
        "abcd",
        "abc…",
        "日本",
        "日… ",
        "e\u0301   ",
    ]


def test_a_page_long_word_is_truncated_in_linear_time() -> None:
    """One token of a tokenizer that does not know it.

    Measuring the rest for each character would take days.
    """
    page = "a" * 10**6
    assert fit(page, 14) == "aaaaaaaaaaaaa…"
    assert fit("日" * 10**6, 14) == "日日日日日日… "
    rows = attention_map(even(2), [page, "b"]).splitlines()
    assert rows[1].startswith("0 aaaaaaaaaaaaa… │")
    links = strongest_links(even(2), [page, "b"], [False, False]).splitlines()
    assert links[0].split()[1] == "aaaaaaaaaaaaa…"
    assert visible(page) == "a" * 199 + "…"
    assert visible(page[:200]) == page[:200]


def test_links_leave_out_special_tokens_and_the_token_itself() -> None:
    weights = np.array(
        [[0.1, 0.2, 0.3, 0.4], [0.6, 0.3, 0.1, 0], [0.2, 0.1, 0.3, 0.4], [1, 0, 0, 0]], np.float32
    )
    links = strongest_links(weights, ["[CLS]", "a", "bc", "[SEP]"], [True, False, False, True])
    assert [line.split() for line in links.splitlines()] == [
        ["1", "a", "→", "2", "bc", "0.100"],
        ["2", "bc", "→", "1", "a", "0.100"],
    ]
    assert strongest_links(weights, list("abcd"), [True, True, False, True]) == ""
    assert (
        strongest_links(even(30), ["x"] * 30, [False] * 30, most=4).splitlines()[-1]
        == "and 26 tokens more"
    )


def test_heads_are_listed_with_what_they_attend_to() -> None:
    count = 4
    before = np.eye(count, k=-1, dtype=np.float32)
    before[0, 0] = 1
    tokens = TokenList(
        (0,) * 4, ("x",) * 4, (0,) * 4, (0,) * 4, (True, False, False, False), (0,) * 4
    )
    weights = np.stack([before, even(count)])[None]
    rows = heads_table(
        Attention(weights, (7,), tokens, ModelRef("m", "1", "ab", "cpu", "fp32"))
    ).splitlines()
    assert [row.split() for row in rows[1:]] == [
        ["7", "0", "0.00", "0.25", "0.75", "0.00", "0.50"],
        ["7", "1", "1.00", "0.25", "0.19", "0.19", "0.25"],
    ]


@pytest.mark.parametrize("colour", [False, True])
def test_a_legend_wider_than_the_terminal_is_broken_between_its_parts(colour: bool) -> None:
    title, steps = legend(0.5, colour, 44)
    assert title == "rows: queries, columns: keys;"
    assert steps.startswith("0 " if colour else "░ ≥0.10 ▒ ≥0.20")
    assert legend(0.5, colour, 80) == [f"{title} {steps}"]
