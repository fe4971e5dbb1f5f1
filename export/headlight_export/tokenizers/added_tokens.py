"""Added tokens, and the tokenizer's class, named in the small files beside a tokenizer.json.

transformers adds those that tokenizer.json lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from headlight_export.folders.max_length import TOKENIZER_CONFIG
from headlight_export.folders.model_folder import CONFIG, Refused, read_object
from headlight_export.tokenizers.wordpiece import ADDED, CONVERT, content

DECODER = "added_tokens_decoder"
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
LISTS = ("extra_special_tokens", "additional_special_tokens")  # tokens without a role, new and old


def check_added(tokenizer: tokenizers.Tokenizer, folder: Path, settings: Mapping[str, Any]) -> None:
    """Check that tokenizer.json has all tokens named in `settings` or added_tokens.json.

    A folder saved as a whole has them all. So the small files were edited, or come from elsewhere.
    Malformed entries name no token.

    Raises:
        Refused: it lacks one.
    """
    for key, token in named(folder, settings):
        if tokenizer.token_to_id(token) is None:
            raise Refused(
                f"{folder}: tokenizer.json has no token {token!a:.60}, which {key} beside it "
                f"names; if the model was trained with it, {CONVERT}, else take it out of {key}"
            )


def named(folder: Path, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each token of the small files: the key that names it, and its spelling."""
    decoder = settings.get(DECODER)
    by_key: dict[str, Iterable[Any]] = {key: (settings.get(key),) for key in ROLES}
    by_key |= {key: _values(settings.get(key)) for key in LISTS} | {DECODER: _values(decoder)}
    if decoder is None and (folder / ADDED).is_file():
        by_key[ADDED] = read_object(folder / ADDED)
    for key, tokens in by_key.items():
        yield from ((key, spelling) for token in tokens if (spelling := content(token)))


def _values(value: Any) -> Iterable[Any]:
    """Return the items of a list, or the values of an object of tokens by name or id."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


MPNET, ROFORMER, JAPANESE = "MPNetTokenizer", "RoFormerTokenizer", "BertJapaneseTokenizer"
XLM_ROBERTA, CAMEMBERT = "XLMRobertaTokenizer", "CamembertTokenizer"
ROBERTA, BART, GPT2, QWEN2 = "RobertaTokenizer", "BartTokenizer", "GPT2Tokenizer", "Qwen2Tokenizer"
# If no class is named.
BY_MODEL_TYPE = dict.fromkeys(
    ("bert", "distilbert", "electra", "mobilebert", "nomic_bert"), "BertTokenizer"
) | {
    "camembert": CAMEMBERT,
    "mpnet": MPNET,
    "qwen2": QWEN2,
    "qwen3": QWEN2,
    "roberta": ROBERTA,
    "roformer": ROFORMER,
    "xlm-roberta": XLM_ROBERTA,
}
OF_JAPANESE = ("word_tokenizer_type", "subword_tokenizer_type")  # settings that no other class has


def class_of(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """Return the class name without "Fast"; None: unknown.

    The tokenizer's settings decide, then config.json, then the usual class of the model type.

    Raises:
        Refused: the class finds words with its own program.
    """
    config = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
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
