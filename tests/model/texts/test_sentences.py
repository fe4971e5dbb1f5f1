from __future__ import annotations

import pytest

from headlight_model.texts.sentences import first_sentence, sentences


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("", ""),
        ("Return x.", "Return x."),
        ("Return x.  Then rest.", "Return x."),
        ("Return x\nover two lines.\n\nMore.", "Return x over two lines."),
        (
            "Use e.g. this one, since 3.11 at least. Never that.",
            "Use e.g. this one, since 3.11 at least.",
        ),
        ("Is it? Yes.", "Is it?"),
        ("No full stop\n\nA second paragraph.", "No full stop"),
        ("get(key[, default]) -> value\n\nReturn the value.", "Return the value."),
        ("get(key) -> value\nReturn the value.", "Return the value."),
        ("get(key) -> value", ""),
        ("\n   \n Late start. ", "Late start."),
        ("---", ""),
        ("x = 1", ""),
    ],
)
def test_the_first_sentence_is_found(docstring: str, sentence: str) -> None:
    assert first_sentence(docstring) == sentence


def test_all_sentences_are_found() -> None:
    assert sentences("One\nline. Two.\n\n  Three\n\n\n") == ["One line.", "Two.", "Three"]
    assert sentences(" \n ") == []
