"""Class of a folder's tokenizer in transformers; some classes fit no tokenizer.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headlight_export.folders.max_length import TOKENIZER_CONFIG
from headlight_export.folders.model_folder import CONFIG, Refused, read_object

MPNET, ROFORMER, JAPANESE = "MPNetTokenizer", "RoFormerTokenizer", "BertJapaneseTokenizer"
XLM_ROBERTA, CAMEMBERT = "XLMRobertaTokenizer", "CamembertTokenizer"
T5 = "T5Tokenizer"
ROBERTA, BART, GPT2, QWEN2 = "RobertaTokenizer", "BartTokenizer", "GPT2Tokenizer", "Qwen2Tokenizer"
# If no class is named.
BY_MODEL_TYPE = dict.fromkeys(
    ("bert", "distilbert", "electra", "mobilebert", "nomic_bert"), "BertTokenizer"
) | {
    "camembert": CAMEMBERT,
    "gpt2": GPT2,
    "gte": XLM_ROBERTA,
    "mpnet": MPNET,
    "mt5": T5,
    "qwen2": QWEN2,
    "qwen3": QWEN2,
    "roberta": ROBERTA,
    "roformer": ROFORMER,
    "t5": T5,
    "xlm-roberta": XLM_ROBERTA,
}
# Model types whose tokenizer.json counts as it is: transformers ignores the class that they name.
AS_WRITTEN = ("umt5",)
OF_JAPANESE = ("word_tokenizer_type", "subword_tokenizer_type")  # settings that no other class has


def class_of(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Return the class name without "Fast"; None: unknown, or of no effect.

    The tokenizer's settings decide, then config.json, then the usual class of the model type.

    Raises:
        Refused: the class finds words with its own program.
    """
    config = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    if config.get("model_type") in AS_WRITTEN:
        return None
    stated = (settings.get("tokenizer_class"), config.get("tokenizer_class"))
    usual = BY_MODEL_TYPE.get(str(config.get("model_type")))
    name = next(
        (name.removesuffix("Fast") for name in stated if isinstance(name, str) and name), usual
    )
    words = [
        f"{TOKENIZER_CONFIG} says {key} {settings[key]!a:.40}"
        for key in OF_JAPANESE
        if settings.get(key)
    ]
    if name == JAPANESE or words:
        what = words[0] if words else f"the tokenizer is a {JAPANESE}"
        raise Refused(
            f"{folder}: {what}, which no tokenizer.json can hold; export it for ids alone, "
            "with --ids-only"
        )
    if name == ROFORMER:
        what = f"{ROFORMER} splits words with jieba, which no tokenizer.json can hold"
        raise Refused(f"{what}; save a BertTokenizer beside the model, or export it for ids alone")
    return name
