"""Units of evidence: words, sentences and spans, of a real tokenizer's tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headlight import InvalidInput, Span
from headlight.comparison import EvidenceSpec, EvidenceUnit
from headlight.results import TokenList
from headlight.runtime.comparison.evidence_units import (
    EvidenceUnits,
    compared_tokens,
    largest,
    units_of,
)
from headlight.runtime.tokenization.tokenizer import Tokenizer
from headlight.runtime.values import Tokenized
from tests.factory import small_tokenizer

TEXT = "ab c? de f!"  # each character is a token


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path: Path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    small_tokenizer().save(str(path))
    return Tokenizer(path, 64)


def units(tokenizer: Tokenizer, text: str = TEXT, **fields: Any) -> EvidenceUnits:
    tokenized = tokenizer.encode(text, with_info=True)
    tokens = compared_tokens(tokenized)
    return units_of(EvidenceSpec(**fields), 0, tokenized, text, tokens, "evidence[1]")


def texts(found: EvidenceUnits, text: str = TEXT) -> list[str]:
    assert found.characters is not None
    return [text[start:end] for start, end, _ in found.characters.T.tolist()]


@pytest.mark.parametrize(
    ("unit", "expected", "sizes"),
    [
        ("token", list("abc?def!"), [1] * 8),
        ("word", ["ab", "c", "?", "de", "f", "!"], [2, 1, 1, 2, 1, 1]),
        ("sentence", ["ab c?", "de f!"], [4, 4]),
    ],
)
def test_units_have_their_characters(
    tokenizer: Tokenizer, unit: EvidenceUnit, expected: list[str], sizes: list[int]
) -> None:
    found = units(tokenizer, unit=unit)
    assert texts(found) == expected
    assert found.sizes.tolist() == sizes
    assert np.concatenate(found.each()).tolist() == list(range(1, 9)), "no special token"


@pytest.mark.parametrize("unit", ["token", "word", "sentence"])
@pytest.mark.parametrize("text", [" ", "\n"])
def test_a_text_without_tokens_has_no_units(
    tokenizer: Tokenizer, text: str, unit: EvidenceUnit
) -> None:
    found = units(tokenizer, text, unit=unit)
    assert (found.each(), texts(found)) == ((), [])


def test_spans_have_the_tokens_whose_last_character_they_hold(tokenizer: Tokenizer) -> None:
    found = units(tokenizer, unit="span", spans=((Span(6, 9), Span(0, 1)),))
    assert found.each() == ((5, 6), (1,))
    assert texts(found) == ["de ", "a"]


def test_a_token_belongs_to_one_of_two_spans_that_cut_it() -> None:
    info = TokenList((7, 8), ("abc", "de"), (0, 3), (3, 5), (False, False), (0, 0))
    tokenized = Tokenized(np.array([7, 8]), 2, info, words=np.arange(2))
    spec = EvidenceSpec(unit="span", spans=((Span(0, 3), Span(3, 5)),))
    tokens = compared_tokens(tokenized)
    assert units_of(spec, 0, tokenized, "abcde", tokens, "").each() == ((0,), (1,))
    spec = EvidenceSpec(unit="span", spans=((Span(0, 4), Span(4, 5)),))
    assert units_of(spec, 0, tokenized, "abcde", tokens, "").each() == ((0,), (1,))
    spec = EvidenceSpec(unit="span", spans=((Span(0, 2), Span(2, 5)),))
    with pytest.raises(InvalidInput, match=r"spans\[0\]: 0 .. 2 holds the last character of no"):
        units_of(spec, 0, tokenized, "abcde", tokens, "")


def test_sums_and_choice_follow_the_units(tokenizer: Tokenizer) -> None:
    found = units(tokenizer, unit="word")
    weights = np.arange(10, dtype=np.float32)
    assert found.sums(weights).tolist() == [3, 3, 4, 11, 7, 8]
    order = largest(found.sums(weights), 2)
    chosen = found.chosen(order)
    assert texts(chosen) == ["de", "!"]
    assert chosen.each() == ((5, 6), (8,))
    assert len(found.chosen(order[:0])) == 0


def test_of_equal_weights_the_first_unit_comes_first() -> None:
    assert largest(np.array([1, 2, 2, 0], np.float32), 3).tolist() == [1, 2, 0]


def test_a_truncated_text_has_the_sentences_that_are_encoded(tokenizer: Tokenizer) -> None:
    text = "a? " * 60
    tokenized = tokenizer.encode(text, with_info=True, truncation="cut_end")
    spec = EvidenceSpec(unit="sentence")
    found = units_of(spec, 0, tokenized, text, compared_tokens(tokenized), "evidence[0]")
    assert len(found) == 31
    assert found.sizes.tolist() == [2] * 31


@pytest.mark.parametrize(
    ("spans", "field", "problem"),
    [
        ([(0, 3), (2, 4)], "spans", "has two that overlap: 0 .. 3 and 2 .. 4"),
        ([(0, 12)], "spans[0]", "is 0 .. 12 of text 0; it must hold a character, and lie in"),
        ([(3, 3)], "spans[0]", "is 3 .. 3 of text 0"),
        ([(0, 2, 1)], "spans[0]", "is 0 .. 2 of text 1"),
        ([(0, 1), (2, 3)], "spans[1]", "2 .. 3 holds the last character of no token"),
        ([(0, 1)] * 11, "spans", "has 11 spans; give 1 to 10"),
        ([], "spans", "has 0 spans; give 1 to 10"),
    ],
)
def test_bad_spans_are_refused_by_name(
    tokenizer: Tokenizer, spans: list[tuple[int, ...]], field: str, problem: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        units(tokenizer, unit="span", spans=(tuple(Span(*span) for span in spans),))
    assert error.value.field == f"evidence[1].spans[0].{field}"
    assert error.value.problem.startswith(problem)
