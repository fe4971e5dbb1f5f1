"""Reference answers, computed before the service starts.

Each text encoded alone, in this process, without a server.
"""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import numpy as np

from headlight.results import Floats
from headlight.runtime import Runtime
from headlight.spec import AttentionSpec
from tests.chaos.traffic.ledger import Wrong

POOLED_TOLERANCE = 1e-6  # of the same text alone, in a batch, under load
WEIGHTS_TOLERANCE = 1e-5
WORDS = (
    "open",
    "file",
    "read",
    "json",
    "path",
    "parse",
    "date",
    "list",
    "socket",
    "thread",
    "lock",
    "queue",
    "héron",
    "Ω",
)
LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144)  # words
TEXTS_A_LENGTH = 4
LONG_WORDS = 900  # all heads of one layer take some 13 MB: more than the transport takes in unread


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """Text and its reference answers."""

    text: str
    ids: tuple[int, ...]
    pooled: Floats  # [D]
    attention: Floats  # [layers, H, n, n]

    def check_pooled(self, vector: Floats) -> None:
        """Raise Wrong unless this is its vector."""
        check(vector, self.pooled, POOLED_TOLERANCE, "a vector")

    def check_attention(self, weights: Floats) -> None:
        """Raise Wrong unless these are its weights."""
        check(weights, self.attention, WEIGHTS_TOLERANCE, "attention")


def check(found: Floats, expected: Floats, tolerance: float, what: str) -> None:
    """Raise Wrong if shapes or numbers differ, or a number is not finite."""
    if found.shape != expected.shape:
        raise Wrong(f"{what} has shape {found.shape}, not {expected.shape}")
    apart = float(np.abs(found - expected).max())
    if not apart <= tolerance:
        raise Wrong(f"{what} is {apart:.1e} from the reference")


@dataclasses.dataclass(frozen=True, slots=True)
class Reference:
    """Texts for callers, with their answers.

    Attributes:
        texts: from a word to beyond the training length.
        long: one whose attention (of layer 0) takes several frames.
    """

    texts: list[Known]
    long: Known


def reference(bundle: Path) -> Reference:
    """Compute all answers. The texts are the same in every run."""
    runtime, chance = Runtime(bundle, threads=1), random.Random("texts")
    every = tuple(range(runtime.bundle.manifest.architecture.layers))
    texts = [
        " ".join(chance.choices(WORDS, k=length))
        for length in LENGTHS
        for _ in range(TEXTS_A_LENGTH)
    ]
    long = " ".join(chance.choices(WORDS, k=LONG_WORDS))
    return Reference([_known(runtime, text, every) for text in texts], _known(runtime, long, (0,)))


def _known(runtime: Runtime, text: str, layers: tuple[int, ...]) -> Known:
    assert runtime.tokenizer is not None
    [alone] = runtime.encode_items([text])
    [attended] = runtime.encode_items([text], pooled=False, attention=AttentionSpec(layers=layers))
    assert alone.pooled is not None
    assert attended.attention is not None
    ids = runtime.tokenizer.encode(text).ids
    return Known(text, tuple(ids.tolist()), alone.pooled, attended.attention)
