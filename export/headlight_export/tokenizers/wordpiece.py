"""BERT tokenizer built from vocab.txt and the small files beside it, as transformers builds it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from headlight_export.folders.max_length import TOKENIZER_CONFIG
from headlight_export.folders.model_folder import Refused, read_object
from headlight_export.tokenizers.tokenizer_class import MPNET

VOCAB, ADDED = "vocab.txt", "added_tokens.json"
CONVERT = "convert it: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
# Identical WordPiece tokenizers, by the name of their class without "Fast".
BERT_LIKE = {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"}
BERT_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
MPNET_TOKENS = BERT_TOKENS | {
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}


def content(token: Any) -> str | None:
    """Return a special token's spelling; it is written as a string or as an object."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def apply_settings(
    tokenizer: tokenizers.Tokenizer, name: str | None, settings: Mapping[str, Any]
) -> None:
    """Let tokenizer_config.json decide on lower-casing, accents and Chinese characters.

    transformers does the same. If it disagrees with tokenizer.json, the smaller file was edited.
    Classes (`name`) other than BERT's are left unchanged.
    """
    if isinstance(tokenizer.normalizer, normalizers.BertNormalizer) and name in BERT_LIKE | {MPNET}:
        tokenizer.normalizer = _bert_normalizer(settings)


def build(folder: Path, name: str, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """Build a WordPiece tokenizer of the class `name` from vocab.txt.

    BERT's settings are the default of `settings`.

    Raises:
        Refused: the class is of another kind, or its files are damaged or lack a token.
    """
    if name not in BERT_LIKE | {MPNET}:
        remedy = (
            f"{CONVERT}, or, where that writes no tokenizer.json, export it for ids alone, "
            "with --ids-only"
        )
        raise Refused(
            f"{folder}: {name} cannot be built from {VOCAB}; {remedy}; if it is a BERT tokenizer, "
            f"set tokenizer_class in {TOKENIZER_CONFIG}"
        )
    usual = MPNET_TOKENS if name == MPNET else BERT_TOKENS
    tokens = {key: content(settings.get(key)) or spelling for key, spelling in usual.items()}
    try:
        model = models.WordPiece.from_file(str(folder / VOCAB), unk_token=tokens["unk_token"])
    except Exception as error:  # the library raises bare Exception
        raise Refused(
            f"{folder / VOCAB} is not a list of words ({error}); fetch it anew"
        ) from error
    tokenizer = tokenizers.Tokenizer(model)
    ids = {
        key: number
        for key, token in tokens.items()
        if (number := tokenizer.token_to_id(token)) is not None
    }
    for key in ("unk_token", "cls_token", "sep_token"):
        if key not in ids:
            raise Refused(
                f"{folder / VOCAB} has no {tokens[key]} ({key}); add it, "
                f"or name another in {TOKENIZER_CONFIG}"
            )
        if not set(tokens[key]).isdisjoint(" $:"):  # these have a meaning in the template below
            raise Refused(
                f"{folder}: {tokens[key]!r} cannot be the {key}; name one without blanks, $ and :"
            )
    tokenizer.normalizer = _bert_normalizer(settings)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    cls, sep = ((tokens[key], ids[key]) for key in ("cls_token", "sep_token"))
    tokenizer.post_processor = _frame(name, cls, sep)
    _add_tokens(tokenizer, folder, settings, [tokens[key] for key in ids])
    return tokenizer


def _bert_normalizer(settings: Mapping[str, Any]) -> normalizers.Normalizer:
    accents = settings.get("strip_accents")
    return normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        strip_accents=None if accents is None else bool(accents),  # None: along with lower-casing
        lowercase=bool(settings.get("do_lower_case", True)),
    )


def _frame(name: str, cls: tuple[str, int], sep: tuple[str, int]) -> processors.PostProcessor:
    """Return the post-processor that puts tokens around a text, or around and between two."""
    if name == MPNET:
        return processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=False)
    return processors.TemplateProcessing(
        single=f"{cls[0]}:0 $A:0 {sep[0]}:0",
        pair=f"{cls[0]}:0 $A:0 {sep[0]}:0 $B:1 {sep[0]}:1",
        special_tokens=[cls, sep],
    )


def _add_tokens(
    tokenizer: tokenizers.Tokenizer, folder: Path, settings: Mapping[str, Any], special: list[str]
) -> None:
    """Make the special tokens special, and add those outside the vocabulary at the folder's ids."""
    placed = _placed_tokens(folder, settings, special)
    present = {token.content for token in placed.values()}
    loose = [
        _added(settings.get(key)) for key in BERT_TOKENS if content(settings.get(key)) in special
    ]
    loose += [_added(spelling) for spelling in special] + _more_special_tokens(folder, settings)
    for token in [token for _, token in sorted(placed.items())] + [
        t for t in loose if t.content not in present
    ]:
        if token.content not in {
            added.content for added in tokenizer.get_added_tokens_decoder().values()
        }:
            tokenizer.add_tokens([token])
    for number, token in placed.items():
        if tokenizer.token_to_id(token.content) != number:
            raise Refused(
                f"{folder}: the added token {token.content} cannot have the id {number}; {CONVERT}"
            )


def _more_special_tokens(folder: Path, settings: Mapping[str, Any]) -> list[tokenizers.AddedToken]:
    """Return the special tokens without a role, under the name of their list now or before."""
    stated = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or []
    if not isinstance(stated, list) or not all(content(token) for token in stated):
        raise Refused(f"{folder} lists special tokens in a way that cannot be read; {CONVERT}")
    return [_added(token) for token in stated]


def _placed_tokens(
    folder: Path, settings: Mapping[str, Any], special: list[str]
) -> dict[int, tokenizers.AddedToken]:
    """Return the added tokens with known ids.

    The settings have them in full; an older file has only their spellings.
    """
    decoder = settings.get("added_tokens_decoder")
    try:
        if decoder is None and (folder / ADDED).is_file():
            ids = read_object(folder / ADDED)
            decoder = {
                number: {"content": spelling, "special": spelling in special}
                for spelling, number in ids.items()
            }
        return {
            int(number): _added({"special": False} | token)
            for number, token in (decoder or {}).items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(
            f"{folder} lists added tokens in a way that cannot be read ({error!r}); {CONVERT}"
        ) from error


def _added(token: Any) -> tokenizers.AddedToken:
    """Return a special token from its written form: a string, or an object with flags."""
    if isinstance(token, str):
        return tokenizers.AddedToken(token, special=True, normalized=False)
    flags = {
        key: bool(token[key])
        for key in ("single_word", "lstrip", "rstrip", "normalized")
        if key in token
    }
    return tokenizers.AddedToken(
        str(token["content"]), special=bool(token.get("special", True)), **flags
    )
