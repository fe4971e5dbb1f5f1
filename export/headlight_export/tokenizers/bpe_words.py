"""BPE tokenizers of sentencepiece, as those of Gemma and LLaMA, which read a text as one word.

The library then merges the characters of the whole text at once, and no place in it is known to be
between two words: a long text could not be truncated by a part of it.
"""

from __future__ import annotations

import json
import re

import tokenizers
from tokenizers import models, pre_tokenizers

SPACE = "▁"
ACROSS_WORDS = re.compile(f"[^{SPACE}]{SPACE}")
TWO_WORDS = "a a"
# Spaces begin a word. A run of them stays one: it may be a token.
WORDS = pre_tokenizers.Split(tokenizers.Regex(f"{SPACE}+"), "merged_with_next")


def split_before_spaces(tokenizer: tokenizers.Tokenizer) -> None:
    """Let a tokenizer that reads a text as one word read words, if the tokens remain the same.

    They do if no merge makes a token that has a space behind another character.
    """
    model = tokenizer.model
    if not isinstance(model, models.BPE) or model.token_to_id(SPACE) is None:
        return
    if len(set(tokenizer.encode(TWO_WORDS, add_special_tokens=False).word_ids)) != 1:
        return
    made = json.loads(tokenizer.to_str())["model"]
    parts = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
    if any(made.get(part) for part in parts):
        return
    merged = (pair if isinstance(pair, str) else "".join(pair) for pair in made["merges"])
    if any(ACROSS_WORDS.search(token.replace(" ", "")) for token in merged):
        return
    before = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = WORDS if before is None else pre_tokenizers.Sequence([before, WORDS])
