"""White space around words in XLM-R tokenizers.

Their tokenizer.json alone would make a token of it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

from tests.unigrams import JOIN, PIECES, SENTENCEPIECE, pieces, write_pieces
from tests.vocabularies import load

HELLO = ["<s>", "▁hello", "</s>"]
STRIP = normalizers.Sequence(
    [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]
)


def read(folder: Path, text: str) -> list[str]:
    return [PIECES[i] for i in load(folder).encode(text).ids]


@pytest.mark.parametrize(
    "name", ["XLMRobertaTokenizer", "XLMRobertaTokenizerFast", "CamembertTokenizerFast"]
)
@pytest.mark.parametrize(
    "normalizer", [None, JOIN, STRIP, normalizers.Sequence([normalizers.NFC(), JOIN])]
)
def test_white_space_becomes_no_token(
    tmp_path: Path, name: str, normalizer: normalizers.Normalizer | None
) -> None:
    made = pieces(normalizer=normalizer)
    write_pieces(tmp_path, made, tokenizer_class=name)
    if normalizer is JOIN:
        assert made.encode("hello ").tokens == ["<s>", "▁hello", "▁", "</s>"]
    for text in ("hello", "hello ", "  hello  ", "\thello\n", "hello\u3000", "hello  \n"):
        assert read(tmp_path, text) == HELLO, text
    for text in ("hello world", " hello  world ", "hello\n\nworld\t", "hello  \n world"):
        assert read(tmp_path, text) == ["<s>", "▁hello", "▁w", "or", "ld", "</s>"], text
    assert read(tmp_path, "hello <mask> world") == [
        "<s>",
        "▁hello",
        "<mask>",
        "▁w",
        "or",
        "ld",
        "</s>",
    ]
    assert read(tmp_path, " ") == ["<s>", "</s>"]
    assert load(tmp_path).encode(" hello  world ").offsets == [
        (0, 0),
        (1, 6),
        (8, 9),
        (9, 11),
        (11, 13),
        (0, 0),
    ]


def test_sentencepiece_normalisation_is_kept(tmp_path: Path) -> None:
    made = pieces(normalizer=normalizers.Sequence([SENTENCEPIECE, JOIN]))
    write_pieces(tmp_path, made, tokenizer_class="XLMRobertaTokenizer")
    assert read(tmp_path, "hello\tWorld ") == ["<s>", "▁hello", "▁w", "or", "ld", "</s>"]


@pytest.mark.parametrize("model", ["xlm-roberta", "camembert"])
def test_the_model_type_decides_if_no_class_is_named(tmp_path: Path, model: str) -> None:
    write_pieces(tmp_path, pieces())
    assert read(tmp_path, "hello ") != HELLO
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model}))
    assert read(tmp_path, "hello ") == HELLO


@pytest.mark.parametrize("scheme", ["first", "never", "always"])
def test_every_word_gets_a_leading_space(tmp_path: Path, scheme: str) -> None:
    split = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme=scheme)]
    )
    write_pieces(tmp_path, pieces(split), tokenizer_class="XLMRobertaTokenizer")
    assert read(tmp_path, "hello world") == ["<s>", "▁hello", "▁w", "or", "ld", "</s>"]
    write_pieces(
        tmp_path, pieces(split), tokenizer_class="XLMRobertaTokenizer", add_prefix_space=False
    )
    assert read(tmp_path, "hello ") == ["<s>", "hello", "</s>"]


def by_punctuation() -> tokenizers.Tokenizer:
    return pieces(
        pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace()])
    )


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (pieces(), "PreTrainedTokenizerFast"),
        (pieces(), "ReformerTokenizer"),
        (pieces(pre_tokenizers.Whitespace()), "XLMRobertaTokenizer"),
        (by_punctuation(), "XLMRobertaTokenizer"),
    ],
)
def test_other_tokenizers_are_unchanged(
    tmp_path: Path, made: tokenizers.Tokenizer, name: str
) -> None:
    write_pieces(tmp_path, made, tokenizer_class=name)
    assert json.loads(load(tmp_path).to_str()) == json.loads(made.to_str())
