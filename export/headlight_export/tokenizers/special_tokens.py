"""Special tokens of a folder's tokenizer: those of its small files, else those of its class."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headlight_export.tokenizers.tokenizer_class import (
    BART,
    CAMEMBERT,
    MPNET,
    ROBERTA,
    XLM_ROBERTA,
    class_of,
)
from headlight_export.tokenizers.tokenizer_file import read_settings
from headlight_export.tokenizers.wordpiece import BERT_LIKE, BERT_TOKENS, MPNET_TOKENS, content

ROBERTA_TOKENS = {"mask_token": "<mask>", "unk_token": "<unk>", "eos_token": "</s>"}
OF_CLASS: Mapping[str | None, Mapping[str, str]] = {
    **dict.fromkeys(BERT_LIKE, BERT_TOKENS),
    **dict.fromkeys((BART, CAMEMBERT, ROBERTA, XLM_ROBERTA), ROBERTA_TOKENS),
    MPNET: MPNET_TOKENS,
}


def special_token(folder: Path, key: str) -> str | None:
    """Return the spelling of a special token, as "mask_token"; None: the tokenizer has none."""
    settings = read_settings(folder)
    if key in settings:
        return content(settings[key])
    return OF_CLASS.get(class_of(folder, settings), {}).get(key)
