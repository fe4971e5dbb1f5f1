"""Callable class for Ray Data's `map_batches`: Arrow tables in, Arrow tables with vectors out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import pyarrow as pa

from headlight.bulk.row_blocks import check_weights, encode_blocks
from headlight.bulk.table_columns import holds_texts, read_pairs, read_texts
from headlight.errors import InvalidInput, Reason
from headlight.interface.arguments import Input, Reading, check_reading
from headlight.ray.actor_encoder import RuntimeEncoder, ServiceEncoder
from headlight.ray.requested_outputs import Encoded, Outputs, spans_spec, spec_or_none
from headlight.span_vectors import SpansSpec, Windows
from headlight.spec import (
    AttentionSpec,
    EmptyTexts,
    InputRole,
    MultiVectorSpec,
    SparseSpec,
    SpecialTokens,
    TokensSpec,
    Truncate,
    VectorType,
)

ERROR = "error"


class Embedder:
    """Embeddings of a text column, for `map_batches` with `batch_format="pyarrow"`.

    A call returns the table with more columns. `embedding` is a fixed-size list. `error` has the
    reason for a row that cannot be encoded, whose vectors are null; it is null for all others. The
    types of the columns depend on the arguments and the model alone.

    Give either `bundle` or `target`. All arguments can be pickled.

    Args:
        bundle: folder of a model, opened once by each actor, on the CPUs or the GPU that Ray
            assigned to it.
        target: address of services, see `headlight.Client`. Requests have the priority "bulk".
        text_column: name of the column of texts.
        pair_column: name of the column of second texts, as documents for queries: rows are pairs.
            None: they are single texts.
        pooled: whether to return `embedding`. A model that reranks or classifies, or gives
            sparse or multi-vectors alone, has none.
        dimensions, dtype, normalize: form of `embedding`, as in `Encoder.encode`.
        tokens: whether to return `token_embeddings`, a list of vectors; a TokensSpec: in its form.
        spans: "sentences", `headlight.Windows`, or a SpansSpec of one of these: return
            `span_embeddings`, a list of vectors, and `span_characters`, the [start, end) of each.
        attention: return `attention`, a list of numbers in C order, and `attention_shape`; with
            `top_k` also `attention_indices`, with uint8 `attention_scales`.
        scores: whether to return `score` and `logit`; of a model with several labels those of the
            likeliest, its `label`, and `scores`, a list in the order of the labels.
        sparse: whether to return `sparse_indices` and `sparse_values`, lists of uint32 and float32;
            a SparseSpec: in its form, with `pieces` also `sparse_pieces`, a list of strings.
        multi_vector: whether to return `multi_vector`, a list of vectors; a MultiVectorSpec: in its
            form.
        role, prompt, prompt_name, truncate, special_tokens, empty_texts: as in `Encoder.encode`; no
            service's policy holds: None refuses an empty text.
        prefix: goes before the names of the new columns.
        sha256: digest of the manifest that the model must have, the same for all actors; None: any.
        provider, precision, streams, threads: of `headlight.runtime.Runtime`, for `bundle`. `None`
            for both numbers: one thread for each CPU.
        retry_for: seconds that a batch waits for services that do not answer, for `target`.
        at_once: requests of an actor in flight, for `target`; None: 4.
        client: more arguments of `headlight.Client`, such as `{"tls_ca": PATH, "token_file":
            PATH}`, for `target`.

    Raises:
        ValueError: arguments that cannot be used.
        InvalidInput: outputs that the model does not have.
        BundleError: the bundle cannot be opened.
        Unavailable: no service answers.

    Example:
        >>> dataset.map_batches(
        ...     Embedder,
        ...     fn_constructor_kwargs={"bundle": "/models/docs-rope", "text_column": "body"},
        ...     batch_format="pyarrow",
        ...     batch_size=1024,
        ...     concurrency=2,
        ...     num_cpus=1,
        ... )
    """

    def __init__(
        self,
        bundle: str | os.PathLike[str] | None = None,
        target: str | None = None,
        *,
        text_column: str = "text",
        pair_column: str | None = None,
        pooled: bool = True,
        dimensions: int | None = None,
        dtype: VectorType = "float32",
        normalize: bool | None = None,
        tokens: bool | TokensSpec = False,
        spans: Literal["sentences"] | Windows | SpansSpec | None = None,
        attention: AttentionSpec | None = None,
        scores: bool = False,
        sparse: bool | SparseSpec = False,
        multi_vector: bool | MultiVectorSpec = False,
        role: InputRole | None = None,
        prompt: str | None = None,
        prompt_name: str | None = None,
        truncate: Truncate | None = None,
        special_tokens: SpecialTokens | None = None,
        empty_texts: EmptyTexts | None = None,
        prefix: str = "",
        sha256: str | None = None,
        provider: str = "auto",
        precision: str = "fp32",
        streams: int | None = None,
        threads: int | None = None,
        retry_for: float = 60.0,
        at_once: int | None = None,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        reading: Reading = {
            "role": role,
            "prompt": prompt,
            "prompt_name": prompt_name,
            "truncate": truncate,
            "special_tokens": special_tokens,
            "empty_texts": empty_texts,
            "priority": "bulk",
        }
        check_reading(reading)
        self._text_column, self._pair_column, self._prefix = text_column, pair_column, prefix
        self._outputs = Outputs(
            pooled=pooled,
            dimensions=dimensions,
            dtype=dtype,
            normalize=normalize,
            tokens=spec_or_none(tokens, TokensSpec),
            spans=spans_spec(spans),
            attention=attention,
            sparse=spec_or_none(sparse, SparseSpec),
            multi_vector=spec_or_none(multi_vector, MultiVectorSpec),
            scores=scores,
            reading=reading,
        )
        _check_source(bundle, target, client)
        self._encoder: RuntimeEncoder | ServiceEncoder
        if target is None:
            self._encoder = RuntimeEncoder(
                os.fspath(cast("str", bundle)),
                attend=attention is not None,
                streams=streams,
                threads=threads,
                provider=provider,
                precision=precision,
                sha256=sha256,
            )
        else:
            self._encoder = ServiceEncoder(target, retry_for, at_once, sha256, client or {})
        if scores and self._encoder.model.token_labels:
            raise InvalidInput("scores", Reason.CLASSIFIES_TOKENS)
        # The type of the vectors; a runtime also checks the arguments.
        self._nothing = self._outputs.encode(self._encoder.encoder(), [])

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Return a batch with its new columns.

        Raises:
            InvalidInput: the batch lacks the text column, or has one of another type.
            MixedWeights: the services' weights were replaced since the actor began.
            HeadlightError: the model failed, or no service answers.
        """
        table = _as_table(batch)
        model = self._encoder.model
        names = [self._prefix + name for name in (*self._outputs.names(model), ERROR)]
        if taken := sorted(set(names) & set(table.column_names)):
            raise InvalidInput("batch", Reason.COLUMN_TAKEN, name=taken[0])
        texts, problems = self._read(table)
        results = self._encode(texts, problems)
        places = [place for place in range(len(texts)) if place not in problems]
        columns = self._outputs.columns(model, self._nothing, results, places, len(texts))
        reasons = pa.array([problems.get(place) for place in range(len(texts))], pa.string())
        for name, column in zip(names, (*columns.values(), reasons), strict=True):
            table = table.append_column(name, column)
        return table

    def _read(self, table: pa.Table) -> tuple[Sequence[Input], dict[int, str]]:
        empty_texts, pair = self._outputs.reading.get("empty_texts"), self._pair_column
        first = text_column(table, self._text_column)
        if pair is None:
            return read_texts(first, empty_texts)
        second = text_column(table, pair, "pair_column")
        return read_pairs(first, second, (self._text_column, pair), empty_texts)

    def _encode(self, texts: Sequence[Input], problems: dict[int, str]) -> Sequence[Encoded]:
        """Return the results of all good texts, in order; add the reasons of the others."""
        source, parts = self._encoder, list[Encoded]()
        encoder = source.encoder()

        def encode(some: Sequence[Input]) -> Encoded:
            return self._outputs.encode(encoder, some)

        def take(block: range, result: Encoded | None) -> None:
            if result is not None:
                for ref in result.models:
                    check_weights(source.model.ref, ref)
                parts.append(result)

        encode_blocks(
            texts,
            problems,
            encode,
            take,
            retries=source.retries(),
            stop=source.stop,
            skip=True,
            block=source.block,
            at_once=source.at_once,
        )
        return parts


def text_column(table: pa.Table, name: str, argument: str = "text_column") -> pa.ChunkedArray:
    """Return a column of texts. Raises InvalidInput, naming the argument, if there is none."""
    if name not in table.column_names:
        columns = ", ".join(table.column_names)
        raise InvalidInput(argument, Reason.NO_COLUMN, name=name, names=columns)
    column = table.column(name)
    if not holds_texts(column.type):
        raise InvalidInput(argument, Reason.COLUMN_TYPE, name=name, type=column.type)
    return column


def _check_source(bundle: object, target: object, client: object) -> None:
    """Raise ValueError unless exactly one of both is given, and `client` with `target` alone."""
    if (bundle is None) == (target is None):
        raise ValueError(
            f"bundle and target: {'both' if target else 'neither'} given; give bundle=FOLDER to "
            "compute in the worker, or target=HOST:PORT to call services"
        )
    if target is None and client is not None:
        raise ValueError("client: is for target; leave it out with bundle")


def _as_table(batch: object) -> pa.Table:
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if not isinstance(batch, pa.Table):
        raise InvalidInput("batch", Reason.NO_TABLE, type=type(batch).__name__)
    return batch
