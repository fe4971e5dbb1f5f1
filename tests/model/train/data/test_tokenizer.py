from __future__ import annotations

import functools
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from headlight_model.texts import corpus
from headlight_model.train.data.tokenizer import ALPHABET, LINE_END, SPECIALS, UNK, train_tokenizer

TEXTS = [source.text for source in corpus.select(["json", "textwrap"])]


@functools.cache
def tokenizer() -> Tokenizer:
    return train_tokenizer(TEXTS, 1000)


def plain(text: str) -> str:
    """Return the normalised text; it must have no line end."""
    bare = "".join(
        char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn"
    )
    return bare.lower()


def test_training_is_deterministic() -> None:
    """Each training draws its own hash seed, so chance would have to repeat itself to hide a
    dependence on it.
    """
    assert train_tokenizer(TEXTS, 1000).to_str() == tokenizer().to_str()


def test_rare_characters_have_no_piece() -> None:
    rare = "".join(chr(0x4E00 + index) for index in range(2 * ALPHABET))
    small = train_tokenizer(["aa bb aa bb", rare], 4 * ALPHABET)
    assert small.token_to_id("aa") is not None
    assert sum(len(piece) == 1 for piece in small.get_vocab()) == ALPHABET


def test_specials_have_the_ids_the_model_expects() -> None:
    assert [tokenizer().token_to_id(special) for special in SPECIALS] == [0, 1, 2, 3, 4]
    assert tokenizer().get_vocab_size() == 1000


def test_templates_add_special_tokens() -> None:
    assert tokenizer().encode("a").tokens == ["[CLS]", "a", "[SEP]"]
    pair = tokenizer().encode("a", "b")
    assert pair.tokens == ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 1, 1]


def test_the_tokenizer_neither_truncates_nor_pads() -> None:
    assert tokenizer().truncation is None
    assert tokenizer().padding is None
    assert len(tokenizer().encode("a " * 5000).ids) == 5002


@pytest.mark.parametrize(
    ("text", "slices"),
    [
        ("__init__(self)", ["__", "init", "__", "(", "self", ")"]),
        ("if x:\n\n\n    return", ["if", "x", ":", "\n", "return"]),
        ("Café == 3", ["é", "==", "3"]),
        # Beyond 16 bits: an offset in UTF-16 or in bytes would be wrong.
        ("\U0001f600 self", ["\U0001f600", "self"]),
    ],
)
def test_offsets_are_code_points_of_the_text_as_given(text: str, slices: list[str]) -> None:
    encoding = tokenizer().encode(text, add_special_tokens=False)
    found = [text[start:end] for start, end in encoding.offsets]
    assert found[-len(slices) :] == slices


def test_blank_lines_and_indentation_are_one_piece() -> None:
    assert tokenizer().encode("x\n  \n\t\n    self\n", add_special_tokens=False).tokens == [
        "x",
        LINE_END,
        "self",
        LINE_END,
    ]


@settings(max_examples=200)
@given(
    st.text(
        alphabet=st.one_of(st.characters(codec="utf-8"), st.sampled_from("aé_ ß\nİSelf=()")),
        max_size=40,
    )
)
def test_offsets_are_valid_for_any_text(text: str) -> None:
    encoding = tokenizer().encode(text, add_special_tokens=False)
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        assert 0 <= start < end <= len(text)
        if token == LINE_END:
            assert text[start:end] in ("\n", LINE_END)
        elif token != UNK:
            assert token.removeprefix("##") in plain(text[start:end])
    starts = [start for start, _ in encoding.offsets]
    assert starts == sorted(starts)


@settings(max_examples=100)
@given(
    st.lists(
        st.sampled_from(["def", "dedent", "(", ")", "textWrapper", "__", "==", "\n", "12"]),
        max_size=20,
    )
)
def test_known_characters_are_preserved(pieces: list[str]) -> None:
    text = " ".join(pieces)
    encoding = tokenizer().encode(text, add_special_tokens=False)
    assert UNK not in encoding.tokens
    covered = "".join(text[start:end] for start, end in encoding.offsets)
    assert "".join(covered.split()) == "".join(text.split())
