from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers, processors

from headlight.runtime.tokenization.tokenizer import Tokenizer
from headlight_export.tokenizers.tokenizer_file import tokenizer_json
from tests.vocabularies import CLS, SEP, load, tokenizer_refusal, vocabulary


def bytewise() -> tokenizers.Tokenizer:
    """Return a tokenizer with one token per byte, and an end token after each text."""
    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=letters | {"<end>": 256}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <end>", special_tokens=[("<end>", 256)]
    )
    tokenizer.add_special_tokens(["<end>"])
    return tokenizer


@pytest.mark.parametrize(
    "name", ["spiece.model", "tokenizer.model", "merges.txt", "vocab.json", "qwen.tiktoken"]
)
def test_unsupported_tokenizer_files_are_refused_with_the_conversion_command(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).touch()
    message = tokenizer_refusal(tmp_path)
    assert name in message
    assert "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)" in message


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff"])
def test_a_damaged_tokenizer_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    assert "cannot be read by the tokenizers library" in tokenizer_refusal(tmp_path)


def test_an_end_token_that_tokenizer_json_does_not_add_is_refused(tmp_path: Path) -> None:
    """Decoders pool the end token."""
    tokenizer = bytewise()
    (tmp_path / "tokenizer_config.json").write_text('{"add_eos_token": true, "eos_token": "<end>"}')
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert load(tmp_path).encode("a").tokens[-1] == "<end>"
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert "sets add_eos_token" in tokenizer_refusal(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(
        '{"add_eos_token": false, "eos_token": "<end>"}'
    )
    assert len(load(tmp_path).encode("a").ids) == 1


def test_truncation_and_padding_are_removed(tmp_path: Path) -> None:
    tokenizer = bytewise()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    loaded = load(tmp_path)
    assert loaded.truncation is None
    assert loaded.padding is None
    assert len(loaded.encode("twelve bytes").ids) == 13
    assert len(loaded.encode("a").ids) == 2


@pytest.mark.parametrize(
    "normalizer",
    [None, normalizers.Replace("a", "x"), normalizers.Sequence([normalizers.Replace("a", "x")])],
)
def test_lower_casing_is_added_once_and_first(
    tmp_path: Path, normalizer: normalizers.Normalizer | None
) -> None:
    tokenizer = bytewise()
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert load(tmp_path).encode("AB").ids != load(tmp_path).encode("ab").ids
    text = tokenizer_json(tmp_path, lower_case=True)
    assert text is not None
    assert tokenizers.Tokenizer.from_str(text).encode("AB").ids == tokenizer.encode("ab").ids
    (tmp_path / "tokenizer.json").write_text(text)
    assert tokenizer_json(tmp_path, lower_case=True) == text


@settings(max_examples=100)
@given(text=st.text(min_size=1, max_size=40))
def test_offsets_refer_to_the_original_text(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """Also through lower-casing, which may lengthen a character."""
    folder = tmp_path_factory.mktemp("bytes")
    bytewise().save(str(folder / "tokenizer.json"))
    encoding = load(folder, lower_case=True).encode(text)
    spans = encoding.offsets[:-1]
    assert all(0 <= start <= end <= len(text) for start, end in spans)
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert sorted(spans) == spans


def test_the_runtime_reads_the_exported_tokenizer(tmp_path: Path) -> None:
    vocabulary(tmp_path)
    text = tokenizer_json(tmp_path, lower_case=False)
    assert text is not None
    (tmp_path / "tokenizer.json").write_text(text)
    tokenizer = Tokenizer(tmp_path / "tokenizer.json", max_length=8)
    assert tokenizer.encode("hello").ids.tolist() == [CLS, 5, SEP]
    assert tokenizer.segments(pairs=True) == 2


def test_a_folder_without_a_tokenizer_has_none(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert tokenizer_json(tmp_path, lower_case=True) is None
