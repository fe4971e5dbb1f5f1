"""Added tokens named in the small files beside a tokenizer.json.

transformers adds those that tokenizer.json lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tokenizers

from headlight_export.folders.model_folder import Refused, read_object
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
