"""Texts of the run: docstrings of Python's own library, the same for every contestant."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headlight.runtime import Tokenizer
from headlight_export.precision.sample_texts import docstrings

COUNT = 1000
LONGEST = 256  # tokens
SPARE = 1 << 20  # far more than there are: all of them


def write_texts(path: Path, tokenizer: Path, count: int) -> None:
    """Choose the texts, count their tokens, and write both.

    A file with as many texts is kept, because reading the library takes long.
    """
    if path.is_file() and len(json.loads(path.read_text(encoding="utf-8"))["texts"]) == count:
        return
    # No limit: a token has at least one character, so counting cuts nothing.
    reader = Tokenizer(tokenizer, 1 << 20)

    def tokens(text: str) -> int:
        return len(reader.encode(text, with_info=False).ids)

    # A text too long for the model is replaced by its first paragraph: a cut text would be
    # unnatural.
    whole = (
        text if tokens(text) <= LONGEST else text.split("\n\n")[0] for text in docstrings(SPARE)
    )
    # Some servers strip their input, and would compute something else.
    usable = [
        text for text in dict.fromkeys(text.strip() for text in whole) if tokens(text) <= LONGEST
    ]
    if len(usable) < count:
        raise SystemExit(
            f"the library of this Python has {len(usable)} docstrings that fit; {count} are needed"
        )
    texts = [usable[i * len(usable) // count] for i in range(count)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"texts": texts, "tokens": [tokens(text) for text in texts]}), encoding="utf-8"
    )


def order(count: int, texts: int, seed: int) -> list[int]:
    """Return `count` indices in a random order: all texts, and then again."""
    rng = np.random.default_rng(seed)
    passes = [rng.permutation(texts) for _ in range(-(-count // texts))]
    return [int(i) for i in np.concatenate(passes)[:count]]


def describe(tokens: Sequence[int]) -> str:
    """Return the texts as a clause."""
    return (
        f"{len(tokens)} texts of {np.mean(tokens):.0f} tokens on average, "
        f"median {np.median(tokens):.0f}, at most {max(tokens)}"
    )
