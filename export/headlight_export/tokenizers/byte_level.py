"""Tokenizers of bytes whose classes in transformers 5 make the pre-tokenizer anew, so that settings say how a text begins."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tokenizers

from headlight_export.tokenizers.tokenizer_class import BART, GPT2, QWEN2, ROBERTA
from headlight_export.tokenizers.unigram import parts_of

CLASSES = {BART, GPT2, QWEN2, ROBERTA}


def begin_as_said(
    tokenizer: tokenizers.Tokenizer, name: str | None, settings: Mapping[str, Any]
) -> tokenizers.Tokenizer:
    """A tokenizer that puts a space in front of a text where tokenizer_config.json says so, whatever tokenizer.json does.

    Of other classes (`name`) it is the one given; so is one that splits texts in several ways, unless it is Qwen2's, which does.
    """
    if name not in CLASSES:
        return tokenizer
    made = json.loads(tokenizer.to_str())
    if name != QWEN2 and (made["pre_tokenizer"] or {}).get("type") == "Sequence":
        return tokenizer
    begins = bool(settings.get("add_prefix_space", False))
    for kind, part in (
        *(("ByteLevel", part) for part in parts_of(made["pre_tokenizer"], "pretokenizers")),
        *(
            ("RobertaProcessing", part) for part in parts_of(made["post_processor"], "processors")
        ),  # trims offsets by it
    ):
        if part["type"] == kind:
            part["add_prefix_space"] = begins
    return tokenizers.Tokenizer.from_str(json.dumps(made))
