"""A folder's tokenizer as one tokenizer.json: the file that is there, or one built from a WordPiece vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import normalizers

from export.folder import CONFIG, Refused, read_object
from export.length import TOKENIZER_CONFIG
from export.wordpiece import CONVERT, VOCAB, apply_settings, build, content

TOKENIZER, SPECIAL = "tokenizer.json", "special_tokens_map.json"
# What tokenizers are otherwise kept in; none of it is read here.
OTHER_FILES = ("vocab.json", "merges.txt", "vocab.bpe", "*.model", "*.tiktoken", "tekken.json")


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
        apply_settings(tokenizer, folder, settings)
    elif (folder / VOCAB).is_file():
        tokenizer = build(folder, settings)
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
    token = content(_settings(folder).get("pad_token"))
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


def _read(path: Path) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise Refused(f"{path} is not one that the tokenizers library reads ({error}); fetch it anew") from error


def _lower_case_first(tokenizer: tokenizers.Tokenizer) -> None:
    present = tokenizer.normalizer
    parts = [present] if present else []
    if isinstance(present, normalizers.Sequence):
        parts = [present[i] for i in range(len(present))]
    if not any(isinstance(part, normalizers.Lowercase) for part in parts):
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *parts])
