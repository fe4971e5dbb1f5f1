"""Sources of a tokenizer's class: its settings, config.json, or the type of the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vocabularies import load, tokenizer_refusal, vocabulary, words


def configure(folder: Path, **values: Any) -> None:
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")


def test_the_class_in_config_json_overrides_the_model_type(tmp_path: Path) -> None:
    """The case is PhoBERT's folder, whose vocab.txt has another format."""
    vocabulary(tmp_path)
    configure(tmp_path, model_type="bert", tokenizer_class="PhobertTokenizer")
    message = tokenizer_refusal(tmp_path)
    assert "PhobertTokenizer cannot be built from vocab.txt" in message
    assert "--ids-only" in message
    vocabulary(tmp_path, tokenizer_class="BertTokenizer")
    assert words(tmp_path, "hellos") == ["hello", "##s"]


def test_settings_apply_to_the_class_in_config_json(tmp_path: Path) -> None:
    vocabulary(tmp_path, do_lower_case=False)
    load(tmp_path).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    configure(tmp_path, model_type="bert", tokenizer_class="PreTrainedTokenizerFast")
    assert words(tmp_path, "Hello") == ["Hello"]
    configure(tmp_path, model_type="llama", tokenizer_class="BertTokenizerFast")
    assert words(tmp_path, "Hello") == ["hello"]


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
@pytest.mark.parametrize("built", [False, True])
def test_a_japanese_tokenizer_is_refused_wherever_it_is_named(
    tmp_path: Path, file: str, built: bool
) -> None:
    vocabulary(tmp_path)
    if built:
        load(tmp_path).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / file).write_text(
        '{"model_type": "bert", "tokenizer_class": "BertJapaneseTokenizer"}'
    )
    message = tokenizer_refusal(tmp_path)
    assert "the tokenizer is a BertJapaneseTokenizer, which no tokenizer.json can hold" in message
    assert "--ids-only" in message


@pytest.mark.parametrize(
    ("key", "value"), [("word_tokenizer_type", "mecab"), ("subword_tokenizer_type", "character")]
)
def test_japanese_settings_are_refused_without_the_class_name(
    tmp_path: Path, key: str, value: str
) -> None:
    vocabulary(tmp_path, **dict[str, Any]({key: value}))
    assert (
        f"tokenizer_config.json says {key} '{value}', which no tokenizer.json can hold"
        in tokenizer_refusal(tmp_path)
    )
    vocabulary(tmp_path, **dict[str, Any]({key: None}))
    assert words(tmp_path, "hellos") == ["hello", "##s"]


def test_a_vocab_txt_of_a_unigram_model_is_refused(tmp_path: Path) -> None:
    vocabulary(tmp_path)
    configure(tmp_path, model_type="xlm-roberta")
    assert "XLMRobertaTokenizer cannot be built from vocab.txt" in tokenizer_refusal(tmp_path)
