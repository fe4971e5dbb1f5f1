"""English text for the model that predicts the next character: Python's own help topics.

`pydoc_data.topics` comes with Python, so nothing is downloaded or stored. Another version of Python
has a slightly different text.
"""

from __future__ import annotations

import functools
from pydoc_data.topics import topics  # type: ignore[import-untyped, unused-ignore]

import torch
from torch import Tensor

# Paragraphs of a piece; every tenth piece is only for tests.
PIECE, HELD_OUT = 50, 10
# The characters of the vocabulary: a line end, and printable ASCII.
CHARACTERS = ("\n", *(chr(code) for code in range(32, 127)))


@functools.cache
def corpus(*, held_out: bool) -> Tensor:
    """Return one part of the text as indices in CHARACTERS: int64 [characters]; others are -1."""
    # Topics repeat each other's paragraphs.
    paragraphs = list(
        dict.fromkeys("\n\n".join(topics[name] for name in sorted(topics)).split("\n\n"))
    )
    chosen = [
        paragraph
        for place, paragraph in enumerate(paragraphs)
        if (place // PIECE % HELD_OUT == 0) == held_out
    ]
    text = "\n\n".join(chosen)
    places = {character: place for place, character in enumerate(CHARACTERS)}
    return torch.tensor([places.get(character, -1) for character in text])


def windows(count: int, length: int, random: torch.Generator, *, held_out: bool) -> Tensor:
    """Draw pieces of one part of the text, as in `corpus`: int64 [count, length]."""
    text = corpus(held_out=held_out)
    begins = torch.randint(len(text) - length + 1, (count, 1), generator=random)
    return text[begins + torch.arange(length)]
