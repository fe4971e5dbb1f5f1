"""Token tables in bytes."""

from __future__ import annotations

import pytest

from headlight.results import TokenList
from headlight_service.frontends.tei.token_table import TokenRow, token_rows

TEXT = "q: é日a"  # é has 2 bytes, 日 3
TOKENS = TokenList(
    ids=(1, 5, 6, 7, 2, 2),
    pieces=("[CLS]", "q", "é日", "a", "[SEP]", "[SEP]"),
    starts=(0, 0, 3, 5, 5, 0),
    ends=(0, 1, 5, 6, 6, 0),
    special=(True, False, False, False, True, True),
    segments=(0,) * 6,
)


def test_offsets_are_bytes_of_the_text() -> None:
    rows = [*token_rows(TEXT, TOKENS, add_special_tokens=True)]
    assert rows == [
        TokenRow(1, "[CLS]", True, None, None),
        TokenRow(5, "q", False, 0, 1),
        TokenRow(6, "é日", False, 3, 8),
        TokenRow(7, "a", False, 8, 9),
        TokenRow(2, "[SEP]", True, 8, 9),
        TokenRow(2, "[SEP]", True, None, None),
    ]


def test_only_tokens_around_the_text_are_left_out() -> None:
    rows = [*token_rows(TEXT, TOKENS, add_special_tokens=False)]
    assert [row.id for row in rows] == [5, 6, 7, 2]


@pytest.mark.parametrize("text", ["abc", "aéb", "日本"])
def test_each_token_is_its_slice_of_the_bytes(text: str) -> None:
    zeros = (0,) * len(text)
    tokens = TokenList(
        zeros,
        tuple(text),
        tuple(range(len(text))),
        tuple(range(1, len(text) + 1)),
        (False,) * len(text),
        zeros,
    )
    for row in token_rows(text, tokens, add_special_tokens=False):
        assert text.encode()[row.start : row.stop].decode() == row.text
