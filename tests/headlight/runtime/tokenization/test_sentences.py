"""The sentence rule: it keeps every character, and ends sentences where its description says."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.runtime.tokenization.sentences import sentence_spans

PIECES = st.sampled_from(
    [*"aB1.!?…。」\"') \n\t", "e.g.", "Dr.", "etc.", "no.", "\n\n", "...", "\u2029", "\r\n", "😀"]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join))


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end, _ in sentence_spans(text)]


@given(TEXTS)
def test_sentences_are_in_order_and_only_white_space_lies_outside(text: str) -> None:
    spans = sentence_spans(text)
    bounds = [0, *itertools.chain.from_iterable((start, end) for start, end, _ in spans), len(text)]
    assert bounds == sorted(bounds)
    between = "".join(text[a:b] for a, b in zip(bounds[::2], bounds[1::2], strict=True))
    assert not between.strip()


@given(TEXTS)
def test_sentences_hold_something_and_are_trimmed(text: str) -> None:
    assert all(sentence and sentence == sentence.strip() for sentence in sentences(text))


@given(TEXTS)
def test_a_sentence_alone_is_one_sentence(text: str) -> None:
    assert all(sentences(sentence) == [sentence] for sentence in sentences(text))


@given(TEXTS, TEXTS)
def test_a_blank_line_separates(first: str, second: str) -> None:
    assert sentences(f"{first}\n \n{second}") == sentences(first) + sentences(second)


@pytest.mark.parametrize(
    "whole",
    [
        "Join paths, e.g. two of them.",
        "Dr. Who met J. R. Smith at 3.5 km (cf. Fig. 3).",
        "Use os.path.join, i.e. Python's own.",
        "Version 3.11.2 of it",
        "1. First of a list",
        "He left... and came back",
        "“Stop!” he said.",
        "Paths, files etc. and so on (Smith et al. 2019).",
        "As shown by Smith et al. (2019).",
        "See No. 5 there",
        "It ran on Jan. 5 and Sept. 12, at most max. 3 times",
        "A Ph.D. Thesis of min. 20 pages",
        "Wie z. B. hier",
        "Take p. x of it",
        "A line\nand the next",
        "?!",
    ],
)
def test_one_sentence(whole: str) -> None:
    assert sentences(whole) == [whole]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?  Four…\tFive", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("Really?! Yes.", ["Really?!", "Yes."]),
        ("“It ends.” The next (it does.) Last", ["“It ends.”", "The next (it does.)", "Last"]),
        ("Add a and b. Then", ["Add a and b.", "Then"]),
        ("They say no. Then etc. Then", ["They say no.", "Then etc.", "Then"]),
        ("It has a max. Then in Dec. Then", ["It has a max.", "Then in Dec.", "Then"]),
        ("行く。来る！はい", ["行く。", "来る！", "はい"]),
        ("「行く。」来る", ["「行く。」", "来る"]),
        ("A title\n\nA text. More", ["A title", "A text.", "More"]),
        ("It is so.\n\nand small", ["It is so.", "and small"]),
        ("see Dr.\n\nWho", ["see Dr.", "Who"]),
        (" \n one \n\n ", ["one"]),
        (" \n\t", []),
        ("", []),
    ],
)
def test_several_sentences(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts


def test_offsets_count_code_points() -> None:
    assert sentence_spans("😀 it. b") == ((0, 5, 0), (6, 7, 0))


@pytest.mark.parametrize("part", [".", "a. ", "1. ", ".'", "\n ", "...a", "'", "a"])
def test_long_texts_are_read_once(part: str) -> None:
    """A quadratic rule would take minutes."""
    text = part * (400_000 // len(part))
    spans = sentence_spans(text)
    assert sum(end - start for start, end, _ in spans) <= len(text)
