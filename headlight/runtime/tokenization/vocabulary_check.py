"""A bundle's tokenizer, held to what its model knows."""

from __future__ import annotations

from pathlib import Path

from headlight.errors import BundleError
from headlight.runtime.bundle.file_contents import File
from headlight.runtime.tokenization.tokenizer import Tokenizer


def open_tokenizer(
    path: File | Path, max_length: int, *, vocabulary: int, segments: int, pairs: bool, include_prompt: bool = True
) -> Tokenizer:
    """Load a tokenizer.json.

    Args:
        path, max_length, include_prompt: see Tokenizer.
        vocabulary: ids that the model knows.
        segments: that the model knows; 0: none.
        pairs: whether the model takes pairs of texts.

    Raises:
        BundleError: the file is no tokenizer; or it has more ids, or marks more segments, than the model knows, and so would index
            beyond its tables; or the model takes no more tokens than it puts around a text.
    """
    tokenizer = Tokenizer(path, max_length, include_prompt=include_prompt, segments=bool(segments))
    if tokenizer.ids > vocabulary:
        raise BundleError(f"has ids up to {tokenizer.ids - 1}; the model knows {vocabulary}", path.name)
    if segments and (marked := tokenizer.segments(pairs=pairs)) > segments:
        raise BundleError(f"tells {marked} segments apart; the model knows {segments}", path.name)
    return tokenizer
