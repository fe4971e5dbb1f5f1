"""A folder's tokenizer as one tokenizer.json: the file that is there, or one built from a WordPiece vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from export.folder import CONFIG, Refused, read_object
from export.length import TOKENIZER_CONFIG

TOKENIZER, VOCAB, SPECIAL, ADDED = "tokenizer.json", "vocab.txt", "special_tokens_map.json", "added_tokens.json"
# What tokenizers are otherwise kept in; none of it is read here.
OTHER_FILES = ("vocab.json", "merges.txt", "vocab.bpe", "*.model", "*.tiktoken", "tekken.json")
CONVERT = "convert it: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
# WordPiece tokenizers that differ in nothing, by the name of their class without "Fast".
BERT_LIKE = {"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"}
MPNET, ROFORMER = "MPNetTokenizer", "RoFormerTokenizer"
BY_MODEL_TYPE = {"mpnet": MPNET, "roformer": ROFORMER}  # where no class is named; any other: BERT's
BERT_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
MPNET_TOKENS = BERT_TOKENS | {"sep_token": "</s>", "pad_token": "<pad>", "cls_token": "<s>", "mask_token": "<mask>"}


def tokenizer_json(folder: Path, *, lower_case: bool) -> str | None:
    """The text of a tokenizer.json that gives the ids transformers gives for this folder, without truncation or padding.

    Args:
        folder: of tokenizer.json, or of vocab.txt and its settings.
        lower_case: put lower-casing in front, as sentence-transformers does for `do_lower_case`.

    Returns:
        The text; None if the folder has no tokenizer at all.

    Raises:
        Refused: the tokenizer is damaged, or of a kind that a tokenizer.json cannot hold or this function cannot build.
    """
    settings = _settings(folder)
    if (folder / TOKENIZER).is_file():
        tokenizer = _read(folder / TOKENIZER)
        _apply_settings(tokenizer, _class_name(settings), settings)
    elif (folder / VOCAB).is_file():
        tokenizer = _build(folder, settings)
    else:
        found = sorted(path.name for pattern in OTHER_FILES for path in folder.glob(pattern))
        if found:
            raise Refused(f"{folder} has no {TOKENIZER}, only {', '.join(found)}, which is not read here; {CONVERT}")
        return None
    if lower_case:
        _lower_case_first(tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return str(tokenizer.to_str())


def pad_id(folder: Path) -> int | None:
    """The id that a folder pads with, from its config.json or else its tokenizer; None: neither says."""
    config = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    if isinstance(config.get("pad_token_id"), int):
        return int(config["pad_token_id"])
    text = tokenizer_json(folder, lower_case=False)
    token = _content(_settings(folder).get("pad_token"))
    found = tokenizers.Tokenizer.from_str(text).token_to_id(token) if text and token else None
    return None if found is None else int(found)


def prompt_length(text: str, prompt: str) -> int:
    """How many tokens at the start pooling leaves out where `include_prompt` is False: [CLS] and such are among them.

    Args:
        text: of a tokenizer.json.
        prompt: what precedes each text.
    """
    tokenizer = tokenizers.Tokenizer.from_str(text)
    ids = tokenizer.encode(prompt).ids
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    # The last token is taken for the mark at the end if it is a special one, also where it is the prompt's own.
    return len(ids) - (1 if ids and ids[-1] in special else 0)


def _settings(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json, and over it special_tokens_map.json unless the former is of the kind that says it all."""
    files = [
        read_object(folder / name) if (folder / name).is_file() else dict[str, Any]()
        for name in (TOKENIZER_CONFIG, SPECIAL)
    ]
    return files[0] if "added_tokens_decoder" in files[0] else files[0] | files[1]


def _class_name(settings: Mapping[str, Any]) -> str | None:
    name = settings.get("tokenizer_class")
    return name.removesuffix("Fast") if isinstance(name, str) else None


def _content(token: Any) -> str | None:
    """A special token's spelling; it is written as a string or as an object."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def _read(path: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise Refused(f"{path} is not one that the tokenizers library reads ({error}); fetch it anew") from error


def _apply_settings(tokenizer: tokenizers.Tokenizer, name: str | None, settings: Mapping[str, Any]) -> None:
    """What tokenizer_config.json says of lower-casing, accents and Chinese characters holds over tokenizer.json, as in transformers.

    Where the two disagree, somebody edited the smaller file.
    """
    if name == ROFORMER:
        _refuse_jieba()
    if not isinstance(tokenizer.normalizer, normalizers.BertNormalizer) or name not in BERT_LIKE | {MPNET}:
        return
    tokenizer.normalizer = _bert_normalizer(settings)


def _bert_normalizer(settings: Mapping[str, Any]) -> normalizers.Normalizer:
    accents = settings.get("strip_accents")
    return normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        strip_accents=None if accents is None else bool(accents),  # None: along with lower-casing
        lowercase=bool(settings.get("do_lower_case", True)),
    )


def _refuse_jieba() -> None:
    what = f"{ROFORMER} splits words with jieba, which no {TOKENIZER} can hold"
    raise Refused(f"{what}; save a BertTokenizer beside the model, or export it for ids alone")


def _lower_case_first(tokenizer: tokenizers.Tokenizer) -> None:
    present = tokenizer.normalizer
    parts = [present] if present else []
    if isinstance(present, normalizers.Sequence):
        parts = [present[i] for i in range(len(present))]
    if not any(isinstance(part, normalizers.Lowercase) for part in parts):
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *parts])


def _build(folder: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer:
    """A WordPiece tokenizer from vocab.txt, as transformers builds it."""
    name = _class_name(settings)
    if name is None:
        config = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
        name = BY_MODEL_TYPE.get(str(config.get("model_type")), "BertTokenizer")
    if name == ROFORMER:
        _refuse_jieba()
    if name not in BERT_LIKE | {MPNET}:
        raise Refused(f"{folder}: {name} cannot be built from {VOCAB}; {CONVERT}")
    usual = MPNET_TOKENS if name == MPNET else BERT_TOKENS
    tokens = {key: _content(settings.get(key)) or spelling for key, spelling in usual.items()}
    try:
        model = models.WordPiece.from_file(str(folder / VOCAB), unk_token=tokens["unk_token"])
    except Exception as error:  # the library raises bare Exception
        raise Refused(f"{folder / VOCAB} is not a list of words ({error}); fetch it anew") from error
    tokenizer = tokenizers.Tokenizer(model)
    ids = {key: number for key, token in tokens.items() if (number := tokenizer.token_to_id(token)) is not None}
    for key in ("unk_token", "cls_token", "sep_token"):
        if key not in ids:
            raise Refused(
                f"{folder / VOCAB} has no {tokens[key]} ({key}); add it, or name another in {TOKENIZER_CONFIG}"
            )
    tokenizer.normalizer = _bert_normalizer(settings)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    cls, sep = ((tokens[key], ids[key]) for key in ("cls_token", "sep_token"))
    tokenizer.post_processor = _frame(name, cls, sep)
    _add_tokens(tokenizer, folder, settings, [tokens[key] for key in ids])
    return tokenizer


def _frame(name: str, cls: tuple[str, int], sep: tuple[str, int]) -> processors.PostProcessor:
    """What is put around a text, or around two and between them."""
    if name == MPNET:
        return processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=False)
    return processors.TemplateProcessing(
        single=f"{cls[0]}:0 $A:0 {sep[0]}:0",
        pair=f"{cls[0]}:0 $A:0 {sep[0]}:0 $B:1 {sep[0]}:1",
        special_tokens=[cls, sep],
    )


def _add_tokens(tokenizer: tokenizers.Tokenizer, folder: Path, settings: Mapping[str, Any], special: list[str]) -> None:
    """Make the special tokens special, and add those that stand in no vocabulary, at the ids the folder gives them."""
    wanted = _placed_tokens(folder, settings, special)
    present = {token.content for token in wanted.values()}
    loose = [_added(settings.get(key)) for key in BERT_TOKENS if _content(settings.get(key)) in special]
    loose += [_added(spelling) for spelling in special]
    for token in [token for _, token in sorted(wanted.items())] + [t for t in loose if t.content not in present]:
        if token.content not in {added.content for added in tokenizer.get_added_tokens_decoder().values()}:
            tokenizer.add_tokens([token])
    for number, token in wanted.items():
        if tokenizer.token_to_id(token.content) != number:
            raise Refused(f"{folder}: the added token {token.content} cannot have the id {number}; {CONVERT}")


def _placed_tokens(folder: Path, settings: Mapping[str, Any], special: list[str]) -> dict[int, tokenizers.AddedToken]:
    """The added tokens whose ids are told: the settings hold them in full, or an older file their spellings."""
    told = settings.get("added_tokens_decoder")
    try:
        if told is None and (folder / ADDED).is_file():
            ids = read_object(folder / ADDED)
            told = {number: {"content": spelling, "special": spelling in special} for spelling, number in ids.items()}
        return {int(number): _added(token) for number, token in (told or {}).items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(f"{folder} lists added tokens in a way that cannot be read ({error!r}); {CONVERT}") from error


def _added(token: Any) -> tokenizers.AddedToken:
    """A special token as it is written: a string, or an object with flags."""
    if isinstance(token, str):
        return tokenizers.AddedToken(token, special=True, normalized=False)
    flags = {key: bool(token[key]) for key in ("single_word", "lstrip", "rstrip", "normalized") if key in token}
    return tokenizers.AddedToken(str(token["content"]), special=bool(token.get("special", True)), **flags)
