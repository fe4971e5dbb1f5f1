"""Span vectors by NumPy on PyTorch's token vectors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

from headlight.results import TokenList
from headlight.runtime.values import Floats
from headlight.span_vectors import SpanVectors
from headlight_model.encoder import Encoder

TEXT = "Join two paths, e.g. a and b. It returns a path! Does it fail? Yes: if there is none"
SECOND = "one. two"


def pytorch_tokens(encoder: Encoder, ids: Iterable[int]) -> Floats:
    """Return PyTorch's token vectors of one text alone: float32 [n, D]."""
    with torch.inference_mode():
        found: Floats = encoder(torch.tensor([list(ids)])).tokens[0].numpy()
    return found


def behind_pooling(encoder: Encoder, means: Floats, *, unit: bool | None = None) -> Floats:
    """Apply the Dense layers and scale to unit length: [s, D] -> [s, pooled_dim]."""
    rows = torch.from_numpy(means.astype(np.float32))
    with torch.inference_mode():
        for dense in encoder.dense:
            rows = dense(rows)
    vectors: Floats = rows.numpy().astype(np.float64)
    if encoder.config.normalize if unit is None else unit:
        vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def own_tokens(tokens: TokenList, span: range, *, special: bool = False) -> list[int]:
    """Return the tokens of a span that count, found token by token."""
    return [at for at in span if (special or not tokens.special[at]) and not tokens.prompt[at]]


def expected_vectors(encoder: Encoder, found: SpanVectors, vectors: Floats | None = None) -> Floats:
    """Return the span vectors that an answer should have, by its own tokens and ranges."""
    if vectors is None:
        vectors = pytorch_tokens(encoder, found.tokens.ids)
    exact = vectors.astype(np.float64)
    means = [exact[own_tokens(found.tokens, span)].mean(axis=0) for span in found.token_ranges]
    return behind_pooling(encoder, np.array(means))
