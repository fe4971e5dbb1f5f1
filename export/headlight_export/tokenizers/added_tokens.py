"""Tokens that the small files beside a tokenizer.json name: transformers adds those that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from headlight_export.folders.model_folder import Refused, read_object
from headlight_export.tokenizers.wordpiece import ADDED, CONVERT, content

DECODER = "added_tokens_decoder"
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
LISTS = ("extra_special_tokens", "additional_special_tokens")  # of tokens without a role, now and before


def check_added(tokenizer: tokenizers.Tokenizer, folder: Path, settings: Mapping[str, Any]) -> None:
    """Raises Refused where tokenizer.json lacks a token that `settings` or added_tokens.json name.

    Saved whole it has them all, so the small files were edited, or come from elsewhere. What is badly written there names none.
    """
    for key, token in named(folder, settings):
        if tokenizer.token_to_id(token) is None:
            raise Refused(
                f"{folder}: tokenizer.json has no token {token!a:.60}, which {key} beside it names; if the model was trained with it, "
                f"{CONVERT}, else take it out of {key}"
            )


def named(folder: Path, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Where a token is named, and its spelling: each token of the small files."""
    told = settings.get(DECODER)
    found: dict[str, Iterable[Any]] = {key: (settings.get(key),) for key in ROLES}
    found |= {key: _values(settings.get(key)) for key in LISTS} | {DECODER: _values(told)}
    if told is None and (folder / ADDED).is_file():
        found[ADDED] = read_object(folder / ADDED)
    for key, tokens in found.items():
        yield from ((key, spelling) for token in tokens if (spelling := content(token)))


def _values(said: Any) -> Iterable[Any]:
    """Of a list, or of an object that gives each token a name or an id."""
    if isinstance(said, dict):
        return said.values()
    return said if isinstance(said, list) else ()
