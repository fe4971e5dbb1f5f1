"""The vocabulary's spelling of terms, and the most bytes that it takes in an answer."""

from __future__ import annotations

import json

import numpy as np

from headlight.runtime.tokenization.tokenizer import Tokenizer
from headlight.runtime.values import Ids

FRAMING_BYTES = 32  # of the list of one input in an answer, and the names of its fields


class Spelling:
    """The spelling of each term of a vocabulary."""

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        """Measure the spelling of `size` terms; those beyond the tokenizer's have none."""
        self._tokenizer = tokenizer
        sizes = [json_bytes(piece) for piece in tokenizer.pieces(range(size))]
        self._longest = np.cumsum(sorted(sizes, reverse=True))

    def pieces(self, terms: Ids) -> tuple[str, ...]:
        """Return the spelling of each term; empty for one that has none."""
        return self._tokenizer.pieces(terms.tolist())

    def most_bytes(self, terms: int) -> int:
        """Return the most bytes of so many different terms of one input in an answer."""
        return int(self._longest[terms - 1]) + FRAMING_BYTES if terms else 0


def json_bytes(piece: str) -> int:
    """Return the bytes of a piece and a comma in JSON. Protobuf takes fewer."""
    return len(json.dumps(piece, ensure_ascii=False).encode()) + 1
