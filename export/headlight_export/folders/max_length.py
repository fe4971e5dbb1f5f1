"""Length at which a folder's own library cuts a text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headlight_export.folders.model_folder import CONFIG, Refused, read_object

TOKENIZER_CONFIG = "tokenizer_config.json"
POSITIONS = ("max_position_embeddings", "n_positions")  # in config.json; the first one counts
UNLIMITED = 10**20  # transformers writes 10^30 for no limit, and never cuts beyond 10^20


def max_length(folder: Path, settings: Mapping[str, Any]) -> int | None:
    """Return the tokens, special ones included, that sentence-transformers leaves; None: no limit.

    Args:
        folder: of the Transformer: config.json and tokenizer_config.json, both of which may be
            missing.
        settings: the Transformer module's own; they apply even beyond the model's positions.

    Raises:
        Refused: a file is not a JSON object, or a length is invalid.
    """
    tokenizer = {
        **(settings.get("processor_kwargs") or {}),
        **(settings.get("tokenizer_args") or {}),
    }
    for stated in (tokenizer.get("model_max_length"), settings.get("max_seq_length")):
        if stated is not None:
            return _limit("max_seq_length", stated)
    files = {
        name: read_object(folder / name) if (folder / name).is_file() else {}
        for name in (TOKENIZER_CONFIG, CONFIG)
    }
    limits = (
        _limit(key, files[name][key])
        for name, keys in ((TOKENIZER_CONFIG, ("model_max_length", "max_len")), (CONFIG, POSITIONS))
        for key in [key for key in keys if key in files[name]][:1]
    )
    return min((limit for limit in limits if limit is not None), default=None)


def _limit(name: str, value: Any) -> int | None:
    """Return a length, or None if there is no limit: null, -1, or a number beyond all texts."""
    if value is None or value == -1:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1:
        raise Refused(f"{name} is {value!r}; it must be a number of tokens, at least 1")
    return int(value) if value < UNLIMITED else None
