"""Byte-level tokenizers: settings decide whether a text begins with a space.

transformers 5 makes the pre-tokenizer of these classes anew, from the settings.
"""

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
    """Return a tokenizer that puts a space before a text if tokenizer_config.json says so.

    tokenizer.json is overridden. A tokenizer of another class (`name`) is unchanged. So is one that
    splits texts in several ways, unless it is Qwen2's, which always does.
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
