"""Columns that a job adds to a table: vectors, or scores with their labels."""

from __future__ import annotations

import abc
import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from headlight.bulk.table_columns import score_columns, vector_column
from headlight.cli.embed.embed_options import check_kind, encoding, vector_settings
from headlight.cli.files import UsageError
from headlight.description import ModelDescription
from headlight.interface.arguments import Input
from headlight.interface.encoder import Encoder
from headlight.results import Embeddings, ModelRef, Scores
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


class ScoredRows(NamedTuple):
    """Scores of some rows."""

    scores: list[Scores]
    model: ModelRef


class Labels(RowResults[ScoredRows]):
    """Scores of texts or pairs, and the likeliest label if the model has several."""

    noun = "score"
    names = ("label", "score", "logit", "scores")

    def open(self, encoder: Encoder, model: ModelDescription) -> None:
        self.model = model
        if "scores" not in model.outputs:
            gives = ", ".join(model.outputs)
            raise UsageError(f"--model: {model.name} gives no scores; it gives {gives}")
        if model.token_labels:
            raise UsageError(f"--model: {model.name} has labels of each token, and none of a text")
        self._encoder = encoder
        if self._arguments.prompt or self._arguments.prompt_name:
            self.encode([("a", "a") if self._arguments.pair_column else "a"])  # as of vectors

    def encode(self, some: Sequence[Input]) -> ScoredRows:
        arguments = self._arguments
        scores = self._encoder.scores(
            some,
            prompt_name=arguments.prompt_name,
            prompt=arguments.prompt,
            truncate=arguments.truncate,
            special_tokens=arguments.special_tokens,
            priority=arguments.priority,
        )
        return ScoredRows(scores, scores[0].model if scores else self.model.ref)

    def columns(self, blocks: Sequence[ScoredRows]) -> dict[str, pa.Array]:
        scores = [one for each in blocks for one in each.scores]
        counts = np.array([each.token_count for each in scores], np.int32)
        return {
            **score_columns(scores, range(len(scores)), len(scores), self.model.labels),
            "token_count": pa.array(counts),
            "truncated": pa.array(np.array([each.cut_tokens > 0 for each in scores], bool)),
        }

    def settings(self) -> Mapping[str, object]:
        model = self.model
        return {
            "--pair-column": self._arguments.pair_column,
            "model or precision": [model.name, model.bundle_sha256, model.precision],
            "--truncate": self._arguments.truncate,
            "--prompt": [self._arguments.prompt_name, self._arguments.prompt],
            "--special-tokens": self._arguments.special_tokens,
        }

    def facts(self) -> Mapping[str, str]:
        return {
            "labels": json.dumps(self.model.labels),
            "activation": self.model.activation,
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
