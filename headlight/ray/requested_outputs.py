"""Requested outputs of each text, and their Arrow columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headlight.bulk.table_columns import (
    attention_columns,
    no_vectors,
    score_columns,
    span_columns,
    sparse_columns,
    token_column,
    vector_column,
)
from headlight.description import ModelDescription
from headlight.interface.arguments import Input, Reading
from headlight.interface.encoder import Encoder
from headlight.results import AttentionMaps, ModelRef, Scores, SparseVector, TokenVectors
from headlight.span_vectors import SpansSpec, SpanVectors, Windows
from headlight.spec import AttentionSpec, MultiVectorSpec, SparseSpec, TokensSpec, VectorType

SpecT = TypeVar("SpecT", TokensSpec, SparseSpec, MultiVectorSpec)


class Encoded(NamedTuple):
    """Results of some texts; an output that is not requested is empty.

    Attributes:
        pooled: [n, D].
        tokens, spans, attention, scores, sparse, multi_vector: one for each text.
        models: the weights of each answer.
    """

    pooled: NDArray[Any]
    tokens: Sequence[TokenVectors]
    spans: Sequence[SpanVectors]
    attention: Sequence[AttentionMaps]
    scores: Sequence[Scores]
    sparse: Sequence[SparseVector]
    multi_vector: Sequence[TokenVectors]
    models: Sequence[ModelRef]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Requested outputs, and how to read texts.

    Attributes:
        pooled: whether pooled vectors are requested, in this form:
        dimensions, dtype, normalize: as in `Encoder.encode`.
        tokens, spans, attention, sparse, multi_vector: the spec of each other output; None: not
            requested.
        scores: whether scores are requested.
        reading: how to read texts.
    """

    pooled: bool
    dimensions: int | None
    dtype: VectorType
    normalize: bool | None
    tokens: TokensSpec | None
    spans: SpansSpec | None
    attention: AttentionSpec | None
    sparse: SparseSpec | None
    multi_vector: MultiVectorSpec | None
    scores: bool
    reading: Reading

    def __post_init__(self) -> None:
        vectors = self.pooled, self.tokens, self.spans, self.sparse, self.multi_vector
        if not any((*vectors, self.attention, self.scores)):
            raise ValueError(
                "pooled: is False, and no other output is requested; "
                "give tokens, spans, attention, sparse, multi_vector or scores, or leave it out"
            )

    def encode(self, encoder: Encoder, texts: Sequence[Input]) -> Encoded:
        """Return all outputs of some texts, by one method call for each.

        Raises the errors of `headlight.errors`.
        """
        pooled, models = np.zeros((len(texts), 0), np.float32), list[ModelRef]()
        if self.pooled:
            result = encoder.encode_with_info(
                texts,
                dimensions=self.dimensions,
                dtype=self.dtype,
                normalize=self.normalize,
                **self.reading,
            )
            pooled, models = result.vectors, [result.model]
        tokens = (
            encoder.token_vectors(texts, **_fields(self.tokens), **self.reading)
            if self.tokens
            else []
        )
        spans = list[SpanVectors]()
        if self.spans:
            options = _fields(self.spans)
            spans = encoder.span_vectors(texts, options.pop("kind"), **options, **self.reading)
        attention = (
            encoder.attention(texts, self.attention, **self.reading) if self.attention else []
        )
        scores = encoder.scores(texts, **self.reading) if self.scores else []
        sparse = (
            encoder.encode_sparse(texts, **_fields(self.sparse), **self.reading)
            if self.sparse
            else []
        )
        many = (
            encoder.multi_vectors(texts, **_fields(self.multi_vector), **self.reading)
            if self.multi_vector
            else []
        )
        others = (tokens, spans, attention, scores, sparse, many)
        models += [each.model for some in others for each in some]
        return Encoded(pooled, *others, models)

    def names(self, model: ModelDescription) -> Iterator[str]:
        """Return the names of the columns, without `error`."""
        if self.pooled:
            yield "embedding"
        if self.tokens:
            yield "token_embeddings"
        if self.spans:
            yield from ("span_embeddings", "span_characters")
        if self.attention:
            yield from ("attention", "attention_shape")
            if self.attention.top_k is not None:
                yield "attention_indices"
            if self.attention.dtype == "uint8":
                yield "attention_scales"
        if self.scores:
            yield from score_columns([], [], 0, model.labels)
        if self.sparse:
            yield from sparse_columns([], [], 0, pieces=self.sparse.pieces)
        if self.multi_vector:
            yield "multi_vector"

    def columns(
        self,
        model: ModelDescription,
        nothing: Encoded,
        results: Sequence[Encoded],
        places: Sequence[int],
        rows: int,
    ) -> Mapping[str, pa.Array]:
        """Return the columns of a batch.

        Args:
            model: for the width of vectors.
            nothing: the results of no texts, for the type of pooled vectors.
            results: of the batch's texts, in order.
            places: the row of each text, ascending.
            rows: number of rows.
        """
        columns: dict[str, pa.Array] = {}
        if self.pooled:
            whole = np.concatenate([nothing.pooled, *(each.pooled for each in results)])
            columns["embedding"] = vector_column(whole, places, rows)
        if self.tokens:
            empty = np.zeros((0, model.dim), self.tokens.dtype)
            tokens = [one for each in results for one in each.tokens]
            columns["token_embeddings"] = token_column(tokens, places, rows, empty)
        if self.spans:
            width = self.spans.dimensions or model.pooled_dim
            spans = [one for each in results for one in each.spans]
            columns |= span_columns(spans, places, rows, np.zeros((0, width), self.spans.dtype))
        if self.attention:
            maps = [one for each in results for one in each.attention]
            columns |= attention_columns(maps, places, rows, self.attention)
        if self.scores:
            scores = [one for each in results for one in each.scores]
            columns |= score_columns(scores, places, rows, model.labels)
        if self.sparse:
            sparse = [one for each in results for one in each.sparse]
            columns |= sparse_columns(sparse, places, rows, pieces=self.sparse.pieces)
        if self.multi_vector:
            many = [one for each in results for one in each.multi_vector]
            none = no_vectors(model, self.multi_vector.dtype)
            columns["multi_vector"] = token_column(many, places, rows, none)
        return columns


def spec_or_none(value: bool | SpecT, kind: type[SpecT]) -> SpecT | None:
    """Return the spec of an argument that may be a flag; None: not requested."""
    if isinstance(value, kind):
        return value
    return kind() if value else None


def spans_spec(spans: Literal["sentences"] | Windows | SpansSpec | None) -> SpansSpec | None:
    """Return the spec of the argument `spans`; None: not requested.

    Raises:
        ValueError: it is something else, such as spans of given texts.
    """
    if spans is None:
        return None
    spec = spans if isinstance(spans, SpansSpec) else SpansSpec(kind=spans)
    if spec.kind != "sentences" and not isinstance(spec.kind, Windows):
        raise ValueError(
            f'spans: is {spans!r:.60}; give "sentences", headlight.Windows, '
            "or a SpansSpec of one of these"
        )
    return spec


def _fields(spec: TokensSpec | SpansSpec | SparseSpec | MultiVectorSpec) -> dict[str, Any]:
    return {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)}
