"""Leading space of byte-level tokenizers, as their settings define it.

tests/families compares it with transformers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from headlight_export.tokenizers.tokenizer_file import tokenizer_json

HELLO, SPACE = 0, 1


def first_id(folder: Path, filed: bool, model: str, digits: bool = False, **settings: Any) -> int:
    """Return the id of "h" by a tokenizer.json with add_prefix_space `filed`,
    with `digits` split first if set, beside these settings.
    """
    tokenizer = tokenizers.Tokenizer(models.BPE({"h": HELLO, "Ġ": SPACE}, []))
    by_bytes = pre_tokenizers.ByteLevel(add_prefix_space=filed)
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([pre_tokenizers.Digits(), by_bytes]) if digits else by_bytes
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"model_type": model}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    text = tokenizer_json(folder, lower_case=False)
    assert text is not None
    return int(tokenizers.Tokenizer.from_str(text).encode("h").ids[0])


@pytest.mark.parametrize("filed", [False, True])
@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("roberta", {}),
        ("qwen3", {}),
        ("llama", {"tokenizer_class": "GPT2TokenizerFast"}),
        ("bert", {"tokenizer_class": "BartTokenizer"}),
    ],
)
def test_the_settings_decide_about_the_leading_space(
    tmp_path: Path, filed: bool, model: str, named: dict[str, Any]
) -> None:
    assert first_id(tmp_path, filed, model, **named) == HELLO
    assert first_id(tmp_path, filed, model, **named, add_prefix_space=False) == HELLO
    assert first_id(tmp_path, filed, model, **named, add_prefix_space=True) == SPACE


@pytest.mark.parametrize(
    ("model", "named"), [("modernbert", {}), ("roberta", {"tokenizer_class": "OwnTokenizer"})]
)
def test_for_other_classes_tokenizer_json_decides(
    tmp_path: Path, model: str, named: dict[str, Any]
) -> None:
    for filed in (False, True):
        for said in (False, True):
            found = first_id(tmp_path, filed, model, **named, add_prefix_space=said)
            assert found == (SPACE if filed else HELLO)


@pytest.mark.parametrize("filed", [False, True])
def test_tokenizer_json_decides_if_it_has_another_pre_tokenizer(
    tmp_path: Path, filed: bool
) -> None:
    """Except for Qwen2, whose pre-tokenizer splits digits itself."""
    assert first_id(tmp_path, filed, "roberta", digits=True, add_prefix_space=not filed) == (
        SPACE if filed else HELLO
    )
    assert first_id(tmp_path, filed, "qwen3", digits=True, add_prefix_space=not filed) == (
        HELLO if filed else SPACE
    )
