"""tokenizer.json of byte-level tokenizers, compared with transformers.

The settings add a leading space or not.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import GPT2Tokenizer, LlamaConfig

from tests.families.test_tokenization_peers import agree, byte_bpe, modernbert, qwen, roberta


def gpt2(folder: Path) -> Any:
    vocab, merges = byte_bpe(["<|endoftext|>"])
    LlamaConfig().save_pretrained(folder)
    return GPT2Tokenizer(vocab=vocab, merges=merges)


@pytest.mark.parametrize("make", [roberta, qwen, gpt2, modernbert])
def test_settings_override_tokenizer_json_for_the_same_classes_as_in_transformers(
    tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    make(tmp_path).save_pretrained(tmp_path)
    file, config = tmp_path / "tokenizer.json", tmp_path / "tokenizer_config.json"
    made, saved = json.loads(file.read_text()), json.loads(config.read_text())
    parts = made["pre_tokenizer"].get("pretokenizers", [made["pre_tokenizer"]])
    ways = itertools.product((False, True), (None, False, True), (True, False))
    for filed, said, named in ways:
        parts[-1]["add_prefix_space"] = filed
        settings = saved | {"add_prefix_space": said}
        if said is None:
            del settings["add_prefix_space"]
        if not named:
            del settings["tokenizer_class"]
        file.write_text(json.dumps(made))
        config.write_text(json.dumps(settings))
        agree(tmp_path)
