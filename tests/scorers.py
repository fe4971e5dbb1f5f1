"""Small models that score texts, terms or tokens, for the tests that need no other library."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.values import Floats
from headlight_model.config import (
    Dense,
    EncoderConfig,
    MultiVectorHead,
    ScoreHead,
    TermHead,
    TokenWeightHead,
)
from tests.factory import SPECIALS, small_config, write_checkpoint
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
    return scoring(head, positions="rope", pooling="last", causal=True, layers=1)


def sparse() -> EncoderConfig:
    """Return the config of a model that weights the terms of its vocabulary."""
    return small_config(
        positions="rope", layers=1, max_length=40, term_head=TermHead(layers=(LAYER,))
    )


def multi_vector() -> EncoderConfig:
    """Return the config of a model with a vector for each token, matched one by one."""
    head = MultiVectorHead(layers=(Dense(width=16),))
    return small_config(positions="rope", layers=1, max_length=40, multi_vector_head=head)


def three() -> EncoderConfig:
    """Return the config of a model for dense, sparse and multi-vectors, as BGE-M3."""
    return small_config(
        positions="rope",
        layers=1,
        max_length=40,
        pooling="cls",
        token_weight_head=TokenWeightHead(skipped=tuple(range(len(SPECIALS)))),
        multi_vector_head=MultiVectorHead(layers=(Dense(width=20, bias=True),)),
    )


def scoring(head: ScoreHead, **values: Any) -> EncoderConfig:
    return small_config(**values, normalize=False, score_head=head, max_length=40)


MAKERS: dict[str, Callable[[], EncoderConfig]] = {
    "reranker": reranker,
    "classifier": classifier,
    "tagger": tagger,
    "decoder": decoder,
    "sparse": sparse,
    "multi_vector": multi_vector,
    "three": three,
}


# Of the model with many vectors: queries are filled up, and some ids of documents have no vector.
ROLES = {
    "query": RoleRules(max_length=12, marker=5, expansion=4, expanded_length=12),
    "document": RoleRules(max_length=30, marker=6, skiplist=(32, 33, 34)),
}


def bundle(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return the bundle of one of MAKERS, written once for all tests."""
    return folder(factory, name) / "bundle"


def folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Return the folder of one of MAKERS, with its checkpoint and its bundle."""
    roles = ROLES if name == "multi_vector" else None
    return once(factory, name, lambda out: write(out, MAKERS[name](), roles))


def write(
    folder: Path,
    config: EncoderConfig,
    roles: Mapping[str, RoleRules] | None = None,
    query_terms: Floats | None = None,
) -> Path:
    """Write a bundle of a model with random weights, checked by the real exporter.

    The model has the folder's name. For roles and query_terms see `Origin`.
    """
    from headlight_export.folders.origin import read_origin
    from headlight_export.writer.bundle_writer import export_origin

    origin = read_origin(write_checkpoint(folder / "checkpoint", config))
    origin = dataclasses.replace(origin, roles=roles or {}, query_terms=query_terms)
    export_origin(origin, folder / "bundle", name=folder.name)
    return folder / "bundle"
