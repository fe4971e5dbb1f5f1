"""Columns that a job adds to a table: vectors, terms, or scores with their labels."""

from __future__ import annotations

import abc
import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from headlight.bulk.table_columns import (
    no_vectors,
    score_columns,
    sparse_columns,
    token_column,
    vector_column,
)
from headlight.cli.embed.embed_options import check_kind, encoding, vector_settings
from headlight.cli.embed.multi_vector_lines import check_multi_vector, multi_vector_type
from headlight.cli.embed.sparse_lines import check_sparse, sparse_options
from headlight.cli.files import UsageError
from headlight.cli.shared_options import reading
from headlight.description import ModelDescription
from headlight.interface.arguments import Input, Reading
from headlight.interface.encoder import Encoder
from headlight.results import Embeddings, ModelRef, Scores, SparseVector, TokenVectors
from headlight.spec import VECTOR_BITS


class Made(Protocol):
    """Results of some rows."""

    @property
    def model(self) -> ModelRef:
        """The weights that made them."""


ResultT = TypeVar("ResultT", bound=Made)


class RowResults(abc.ABC, Generic[ResultT]):
    """Results of one kind.

    Attributes:
        noun: of one row's result, for reports.
        names: of the columns that the model may give, in their order.
        model: description of the model, after `open`.
    """

    noun: str
    names: Sequence[str]
    model: ModelDescription

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Keep the arguments of the command."""
        self._arguments = arguments

    @abc.abstractmethod
    def open(self, encoder: Encoder, model: ModelDescription) -> None:
        """Begin to compute. Raises UsageError if the model gives no such results."""

    @abc.abstractmethod
    def encode(self, some: Sequence[Input]) -> ResultT:
        """Return the results of some texts or pairs."""

    @abc.abstractmethod
    def columns(self, blocks: Sequence[ResultT]) -> dict[str, pa.Array]:
        """Return the columns of results, one row for each."""

    @abc.abstractmethod
    def settings(self) -> Mapping[str, object]:
        """Return all on which results depend; see `vector_settings`."""

    @abc.abstractmethod
    def facts(self) -> Mapping[str, str]:
        """Return how results were made, besides the model and `--truncate`."""


class Vectors(RowResults[Embeddings]):
    """Pooled vectors."""

    noun = "vector"
    _encode: Callable[[Sequence[Input]], Embeddings]

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(arguments)
        dtypes = arguments.dtype or []
        self.names = [f"embedding_{name}" for name in dtypes] if len(dtypes) > 1 else ["embedding"]

    def open(self, encoder: Encoder, model: ModelDescription) -> None:
        self.model = model
        check_kind(self._arguments, model)
        self._encode = encoding(encoder, self._arguments)
        self._nothing = self._encode([])  # for the types of vectors
        if self._arguments.prompt or self._arguments.prompt_name:
            self._encode(["a"])  # a prompt that is too long would make all rows bad ones

    def encode(self, some: Sequence[Input]) -> Embeddings:
        return self._encode(some)

    def columns(self, blocks: Sequence[Embeddings]) -> dict[str, pa.Array]:
        every, columns = [self._nothing, *blocks], dict[str, pa.Array]()
        for title, name in zip(self.names, self._nothing.by_type, strict=True):
            vectors = np.concatenate([each.by_type[name] for each in every])
            columns[title] = vector_column(vectors, range(len(vectors)), len(vectors))
        counts = np.concatenate([each.token_counts for each in every])
        columns["token_count"] = pa.array(counts.astype(np.int32))
        columns["truncated"] = pa.array(np.concatenate([each.truncated for each in every]))
        return columns

    def settings(self) -> Mapping[str, object]:
        return vector_settings(self._arguments, self._nothing)

    def facts(self) -> Mapping[str, str]:
        arguments = self._arguments
        name, vectors = next(iter(self._nothing.by_type.items()))
        width = 8 * vectors.shape[1] * vectors.dtype.itemsize
        normalized = self.model.normalized if arguments.normalize is None else arguments.normalize
        return {
            "dimensions": str(width // VECTOR_BITS[name]),
            "dtype": ",".join(self._nothing.by_type),
            "normalized": str(normalized).lower(),
            **prompt_facts(arguments),
        }


class Counted(Made, Protocol):
    """The result of one row, and its tokens."""

    @property
    def token_count(self) -> int:
        """Tokens that were encoded."""

    @property
    def cut_tokens(self) -> int:
        """Tokens that truncation cut off."""


CountedT = TypeVar("CountedT", bound=Counted)


class ResultRows(NamedTuple, Generic[CountedT]):
    """Results of some rows, one for each."""

    each: list[CountedT]
    model: ModelRef


class EachResult(RowResults[ResultRows[CountedT]]):
    """Results of one kind that a method of an encoder returns in a list."""

    _encoder: Encoder

    def open(self, encoder: Encoder, model: ModelDescription) -> None:
        self.model, self._encoder = model, encoder
        self.check(model)
        if self._arguments.prompt or self._arguments.prompt_name:
            pair = getattr(self._arguments, "pair_column", None)
            self.encode([("a", "a") if pair else "a"])  # as of vectors

    @abc.abstractmethod
    def check(self, model: ModelDescription) -> None:
        """Raise UsageError if the model gives no such results."""

    @abc.abstractmethod
    def results(self, some: Sequence[Input], options: Reading) -> list[CountedT]:
        """Return the result of each text or pair."""

    @abc.abstractmethod
    def own_columns(self, results: Sequence[CountedT]) -> dict[str, pa.Array]:
        """Return the columns of results, without those of their tokens."""

    def encode(self, some: Sequence[Input]) -> ResultRows[CountedT]:
        results = self.results(some, reading(self._arguments))
        return ResultRows(results, results[0].model if results else self.model.ref)

    def columns(self, blocks: Sequence[ResultRows[CountedT]]) -> dict[str, pa.Array]:
        results = [one for block in blocks for one in block.each]
        counts = np.array([each.token_count for each in results], np.int32)
        return {
            **self.own_columns(results),
            "token_count": pa.array(counts),
            "truncated": pa.array(np.array([each.cut_tokens > 0 for each in results], bool)),
        }

    def settings(self) -> Mapping[str, object]:
        model = self.model
        return {
            "model or precision": [model.name, model.bundle_sha256, model.precision],
            "--truncate": self._arguments.truncate,
            "--prompt": [self._arguments.prompt_name, self._arguments.prompt],
            "--special-tokens": self._arguments.special_tokens,
        }


class Labels(EachResult[Scores]):
    """Scores of texts or pairs, and the likeliest label if the model has several."""

    noun = "score"
    names = ("label", "score", "logit", "scores")

    def check(self, model: ModelDescription) -> None:
        if "scores" not in model.outputs:
            gives = ", ".join(model.outputs)
            raise UsageError(f"--model: {model.name} gives no scores; it gives {gives}")
        if model.token_labels:
            raise UsageError(f"--model: {model.name} has labels of each token, and none of a text")

    def results(self, some: Sequence[Input], options: Reading) -> list[Scores]:
        return self._encoder.scores(some, **options)

    def own_columns(self, results: Sequence[Scores]) -> dict[str, pa.Array]:
        return score_columns(results, range(len(results)), len(results), self.model.labels)

    def settings(self) -> Mapping[str, object]:
        return {"--pair-column": self._arguments.pair_column, **super().settings()}

    def facts(self) -> Mapping[str, str]:
        return {
            "labels": json.dumps(self.model.labels),
            "activation": self.model.activation,
            **prompt_facts(self._arguments),
        }


class Terms(EachResult[SparseVector]):
    """Sparse vectors."""

    noun = "sparse vector"

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(arguments)
        self._spec = sparse_options(arguments)
        self.names = [*sparse_columns([], [], 0, pieces=self._spec.pieces)]

    def check(self, model: ModelDescription) -> None:
        check_sparse(self._arguments, model)

    def results(self, some: Sequence[Input], options: Reading) -> list[SparseVector]:
        return self._encoder.encode_sparse(some, **dataclasses.asdict(self._spec), **options)

    def own_columns(self, results: Sequence[SparseVector]) -> dict[str, pa.Array]:
        rows = len(results)
        return sparse_columns(results, range(rows), rows, pieces=self._spec.pieces)

    def settings(self) -> Mapping[str, object]:
        return {
            "--sparse": dataclasses.asdict(self._spec),
            "--empty-texts": self._arguments.empty_texts,
            "--role": self._arguments.role,
            **super().settings(),
        }

    def facts(self) -> Mapping[str, str]:
        return {"vocabulary": str(self.model.vocab_size), **prompt_facts(self._arguments)}


class ManyVectors(EachResult[TokenVectors]):
    """A vector for each token, matched one by one."""

    noun = "multi-vector"
    names = ("multi_vector",)

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(arguments)
        self._dtype = multi_vector_type(arguments)

    def check(self, model: ModelDescription) -> None:
        check_multi_vector(self._arguments, model)

    def results(self, some: Sequence[Input], options: Reading) -> list[TokenVectors]:
        return self._encoder.multi_vectors(some, dtype=self._dtype, **options)

    def own_columns(self, results: Sequence[TokenVectors]) -> dict[str, pa.Array]:
        empty = no_vectors(self.model, self._dtype)
        return {"multi_vector": token_column(results, range(len(results)), len(results), empty)}

    def settings(self) -> Mapping[str, object]:
        return {
            "--multi-vector": self._dtype,
            "--empty-texts": self._arguments.empty_texts,
            "--role": self._arguments.role,
            **super().settings(),
        }

    def facts(self) -> Mapping[str, str]:
        return {
            "dimensions": str(self.model.multi_vector_dim),
            "dtype": self._dtype,
            "role": self._arguments.role or "",
            **prompt_facts(self._arguments),
        }


def prompt_facts(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the requested prompt, as in the metadata of the output."""
    return {"prompt_name": arguments.prompt_name or "", "prompt": arguments.prompt or ""}


def facts_of(results: RowResults[Any], arguments: argparse.Namespace) -> dict[str, str]:
    """Return the metadata of the output: how its results were made."""
    model = results.model
    facts = {
        "model": model.name,
        "version": model.version,
        "bundle_sha256": model.bundle_sha256,
        "provider": model.provider,
        "precision": model.precision,
        **results.facts(),
        "truncate": arguments.truncate or "",
    }
    return {f"headlight.{key}": value for key, value in facts.items()}
