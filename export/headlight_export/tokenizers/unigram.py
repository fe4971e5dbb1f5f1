"""Unigram tokenizers of XLM-R, CamemBERT and T5, as their classes in transformers 5 make them.

Those classes use only the pieces of tokenizer.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from headlight_export.tokenizers.tokenizer_class import CAMEMBERT, T5, XLM_ROBERTA

# The classes' pre-tokenizers, and those of many a tokenizer.json; any others are left unchanged.
SPLIT, PLAIN = ["WhitespaceSplit", "Metaspace"], ["Metaspace"]


def split_at_white_space(
    tokenizer: tokenizers.Tokenizer, name: str | None, settings: Mapping[str, Any]
) -> None:
    """Let a tokenizer of such a class split at white space first, as sentencepiece does.

    Each word then has a space before it and is split into pieces. Metaspace alone makes a token of
    white space at the end of a text.
    """
    if name not in {XLM_ROBERTA, CAMEMBERT, T5}:
        return
    made = json.loads(tokenizer.to_str())
    kinds = [part["type"] for part in parts_of(made["pre_tokenizer"], "pretokenizers")]
    if made["model"]["type"] != "Unigram" or kinds not in (SPLIT, PLAIN):
        return
    prefixed = name == T5 or settings.get("add_prefix_space", True)
    scheme = "always" if prefixed else "never"
    words, pieces = (
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.Metaspace(prepend_scheme=scheme),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, pieces])
    present = tokenizer.normalizer
    parts = [present] if present else []
    if isinstance(present, normalizers.Sequence):
        parts = [present[i] for i in range(len(present))]
    pairs = zip(parts, parts_of(made["normalizer"], "normalizers"), strict=True)
    kept = [part for part, component in pairs if not _joins_spaces(component)]
    if len(kept) < len(parts):
        tokenizer.normalizer = normalizers.Sequence(kept)


def _joins_spaces(normalizer: Mapping[str, Any]) -> bool:
    """Return whether a normalizer has no effect once white space is gone.

    Some replace two spaces by ▁.
    """
    return normalizer["type"] == "Strip" or normalizer.get("pattern") == {"Regex": " {2,}"}


def parts_of(component: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """Return a component of tokenizer.json as a list; a sequence has its components under `key`."""
    if component is None:
        return []
    return list(component[key]) if component["type"] == "Sequence" else [component]
