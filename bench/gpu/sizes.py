"""Measured encoders: the shipped, trained ones, and three common BERT sizes, random weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from bench.encoder import random_encoder
from headlight_model.checkpoint import load_checkpoint
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

CHECKPOINTS = Path("model/headlight_model/checkpoints")
TRAINED = ("docs-rope", "docs-sinusoidal")
LONGEST = 8192  # tokens


def _bert(layers: int, heads: int, dim: int) -> EncoderConfig:
    return EncoderConfig(
        vocab_size=30522,
        dim=dim,
        heads=heads,
        layers=layers,
        ffn_dim=4 * dim,
        positions="learned",
        norm="post",
        pooling="cls",
        trained_length=512,
        max_length=LONGEST,
    )


MINILM, BASE, LARGE, TINY = "minilm", "bert-base", "bert-large", "tiny"
SIZES = {
    MINILM: _bert(6, 12, 384),
    BASE: _bert(12, 12, 768),
    LARGE: _bert(24, 16, 1024),
    # For rehearsals: the same structure in a small size.
    TINY: dataclasses.replace(_bert(2, 2, 32), vocab_size=8192, trained_length=32, max_length=128),
}
REAL_SIZES = (MINILM, BASE, LARGE)


def encoder_of(name: str) -> Encoder:
    """Return an encoder in float32, in evaluation mode, on the CPU.

    A shipped one has its checkpoint, another the same random weights each time.
    """
    if name in SIZES:
        return random_encoder(SIZES[name])
    return load_checkpoint(CHECKPOINTS / name)
