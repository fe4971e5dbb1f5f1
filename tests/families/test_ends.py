"""End tokens that a tokenizer's settings declare and its tokenizer.json does not add."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from tokenizers import processors
from transformers import AutoTokenizer

from headlight_export.folders.model_folder import Refused
from headlight_export.tokenizers.token_comparison import compare_ids
from headlight_export.tokenizers.tokenizer_file import tokenizer_json
from tests.families.test_tokenization_peers import llama


def test_an_end_token_from_settings_is_kept_after_saving_as_the_refusal_advises(
    tmp_path: Path,
) -> None:
    """The case is E5-Mistral's folder: its tokenizer.json adds no end token."""
    tokenizer = llama(tmp_path)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    tokenizer.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    settings = json.loads(path.read_text()) | {"add_eos_token": True, "add_bos_token": True}
    path.write_text(json.dumps(settings | {"tokenizer_class": "LlamaTokenizer"}))
    with pytest.raises(
        Refused, match=r"from_pretrained\(folder, add_bos_token=True, add_eos_token=True\)"
    ):
        tokenizer_json(tmp_path, lower_case=False)
    AutoTokenizer.from_pretrained(tmp_path, add_bos_token=True, add_eos_token=True).save_pretrained(
        tmp_path
    )
    text = tokenizer_json(tmp_path, lower_case=False)
    assert text is not None
    assert "are those of transformers" in str(compare_ids(tmp_path, text, lower_case=False))
    ids = tokenizers.Tokenizer.from_str(text).encode("hello world").ids
    assert (ids[0], ids[-1]) == (1, 2)
