"""Small models that score texts or terms, for the tests that need no other library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headlight_model.config import Dense, EncoderConfig, ScoreHead, TermHead
from tests.factory import small_config, write_checkpoint
from tests.once import once

LAYER = Dense(width=36, bias=True, activation="tanh", norm=True)
RERANKER: dict[str, Any] = {"positions": "learned", "norm": "post", "segments": 2, "layers": 1}


def reranker() -> EncoderConfig:
    """Return the config of a cross-encoder with one score."""
    layers = (LAYER, Dense(width=1, bias=True))
    head = ScoreHead(layers=layers, labels=("relevance",), activation="sigmoid")
    return scoring(head, pooling="cls", **RERANKER)


def classifier() -> EncoderConfig:
    """Return the config of a classifier of texts and pairs with three labels."""
    layers = (LAYER, Dense(width=3, bias=True))
    head = ScoreHead(layers=layers, labels=("bad", "fair", "good"), activation="softmax")
    return scoring(head, pooling="cls", **RERANKER)


def tagger() -> EncoderConfig:
    """Return the config of a model with three scores of each token."""
    labels = ("O", "B-NAME", "I-NAME")
    head = ScoreHead(
        layers=(Dense(width=3, bias=True),), labels=labels, activation="softmax", each_token=True
    )
    return scoring(head, positions="rope", layers=1)


def decoder() -> EncoderConfig:
    """Return the config of a causal cross-encoder; its pairs need a template."""
    head = ScoreHead(layers=(Dense(width=1),), labels=("relevance",), activation="sigmoid")
    return scoring(head, positions="rope", pooling="last", causal=True)


def sparse() -> EncoderConfig:
    """Return the config of a model that weights the terms of its vocabulary."""
    return small_config(
        positions="rope", layers=1, max_length=40, term_head=TermHead(layers=(LAYER,))
    )


def scoring(head: ScoreHead, **values: Any) -> EncoderConfig:
    return small_config(**values, normalize=False, score_head=head, max_length=40)


MAKERS: dict[str, Callable[[], EncoderConfig]] = {
    "reranker": reranker,
    "classifier": classifier,
    "tagger": tagger,
    "decoder": decoder,
    "sparse": sparse,
}


def bundle(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return the bundle of one of MAKERS, written once for all tests."""
    return once(factory, name, lambda out: write(out, MAKERS[name]())) / "bundle"


def write(folder: Path, config: EncoderConfig) -> Path:
    """Write a bundle of a model with random weights, checked by the real exporter.

    The model has the folder's name.
    """
    from headlight_export.writer.bundle_writer import export_checkpoint

    checkpoint = write_checkpoint(folder / "checkpoint", config)
    export_checkpoint(checkpoint, folder / "bundle", name=folder.name)
    return folder / "bundle"
