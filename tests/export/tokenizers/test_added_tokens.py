"""Tokens that the small files beside tokenizer.json name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from headlight_export.folders.model_folder import Refused
from headlight_export.tokenizers.tokenizer_file import tokenizer_json

SETTINGS, MAP, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
WORD, EXTRA = "hello", "[D]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a tokenizer.json with a word, and a token added to it."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel({"[UNK]": 0, WORD: 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([EXTRA])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def named(token: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return ways to name a token: the key in refusals, the file, and its content."""
    whole = {"content": token, "lstrip": False, "special": True}
    return [
        ("mask_token", SETTINGS, {"mask_token": token}),
        ("mask_token", MAP, {"mask_token": whole}),
        ("added_tokens_decoder", SETTINGS, {"added_tokens_decoder": {"3": whole}}),
        ("extra_special_tokens", SETTINGS, {"extra_special_tokens": [token]}),
        ("extra_special_tokens", SETTINGS, {"extra_special_tokens": {"image_token": token}}),
        ("additional_special_tokens", MAP, {"additional_special_tokens": [EXTRA, whole]}),
        (ADDED, ADDED, {token: 3}),
    ]


@pytest.mark.parametrize(("key", "file", "said"), named("[Q]"))
def test_a_token_that_tokenizer_json_lacks_is_refused(
    folder: Path, key: str, file: str, said: dict[str, Any]
) -> None:
    (folder / file).write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(
        Refused, match=rf"tokenizer.json has no token '\[Q\]', which {key} beside it names; .*"
    ):
        tokenizer_json(folder, lower_case=False)


@pytest.mark.parametrize("token", [WORD, EXTRA])
def test_tokens_that_tokenizer_json_has_are_accepted(folder: Path, token: str) -> None:
    for _, file, said in named(token):
        (folder / file).write_text(json.dumps(said), encoding="utf-8")
        assert tokenizer_json(folder, lower_case=False) is not None
        (folder / file).unlink()


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"mask_token": None, "pad_token": "", "extra_special_tokens": None},
        {"added_tokens_decoder": {"0": 3}, "extra_special_tokens": "[Q]", "bos_token": 7},
    ],
)
def test_entries_that_name_no_token_are_ignored(folder: Path, said: dict[str, Any]) -> None:
    (folder / SETTINGS).write_text(json.dumps(said), encoding="utf-8")
    assert tokenizer_json(folder, lower_case=False) is not None


def test_a_file_superseded_by_settings_is_not_read(folder: Path) -> None:
    """transformers ignores both files if the settings list all added tokens."""
    (folder / SETTINGS).write_text(
        json.dumps({"added_tokens_decoder": {"2": {"content": EXTRA}}}), encoding="utf-8"
    )
    (folder / MAP).write_text(json.dumps({"mask_token": "[Q]"}), encoding="utf-8")
    (folder / ADDED).write_text(json.dumps({"[Q]": 3}), encoding="utf-8")
    assert tokenizer_json(folder, lower_case=False) is not None
