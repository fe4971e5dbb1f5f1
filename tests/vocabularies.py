"""WordPiece vocabularies in folders, and their tokenizers."""

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from headlight_export.folders.model_folder import Refused
from headlight_export.tokenizers.tokenizer_file import tokenizer_json

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "hello",
    "Hello",
    "##s",
    "cafe",
    "café",
    "今",
    "天",
    "!",
    "今天",
]
CLS, SEP, UNK = 2, 3, 1


def vocabulary(folder: Path, words: list[str] = WORDS, **config: Any) -> None:
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))


def load(folder: Path, *, lower_case: bool = False) -> tokenizers.Tokenizer:
    text = tokenizer_json(folder, lower_case=lower_case)
    assert text is not None
    return tokenizers.Tokenizer.from_str(text)


def words(folder: Path, text: str) -> list[str]:
    return [WORDS[i] for i in load(folder).encode(text, add_special_tokens=False).ids]


def tokenizer_refusal(folder: Path) -> str:
    """Return the message that refuses the tokenizer."""
    with pytest.raises(Refused) as caught:
        tokenizer_json(folder, lower_case=False)
    message = str(caught.value)
    assert "\n" not in message
    assert "; " in message  # the problem, and the remedy
    return message
