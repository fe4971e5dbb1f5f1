"""Sparse vectors: the terms of the vocabulary that a text has weight in, for an inverted index."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headlight.errors import InvalidInput, Reason
from headlight.interface.checked_specs import checked_sparse
from headlight.outputs.contract import messages, require
from headlight.outputs.layout import Tensor
from headlight.outputs.output import Item, Output, Work
from headlight.results import ModelRef, SparseVector, TokenList
from headlight.spec import SparseSpec

if TYPE_CHECKING:
    from headlight.description import ModelDescription
    from headlight.interface.arguments import Input
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.pb import headlight_pb2 as pb
    from headlight.runtime.values import Architecture, Array, Arrays, Floats, Ids

# The graph's output is one of two: float [B, vocabulary], or [B, S, 1], each token being a term.
TERMS, TOKEN_WEIGHTS = "terms", "token_weights"
INDICES = "sparse_indices"
SPARSE = "outputs.sparse"
USUAL = 1024  # terms, unless the caller says otherwise; a text has some hundreds


class TermChoice(NamedTuple):
    """How many terms a vector has, at most, and the least weight of each.

    0 terms: what the graph gives, for measurements alone; of each token or of the vocabulary.
    `of_queries` are the weights of all terms in queries, if the model does not compute them.
    `pieces`: whether each term has its spelling.
    """

    terms: int
    least: float
    size: int
    each_token: bool = False
    of_queries: Floats | None = None
    pieces: bool = False

    def is_query(self, item: Item) -> bool:
        """Return whether an input is a query whose terms need no model."""
        return self.of_queries is not None and item.matched is not None


class SparseVectors(Output):
    """The largest weights of each input, by ascending term; behind the last, terms of weight 0."""

    name = "sparse"
    extras = (INDICES,)
    axes = ("term",)
    reads = (TERMS, TOKEN_WEIGHTS)
    tolerance = "sparse"
    floor = 1e-5
    by_number = True

    def checked(self, spec: SparseSpec, inputs: int) -> SparseSpec:
        return checked_sparse(spec)

    def given_by(self, architecture: Architecture) -> bool:
        return architecture.terms

    def choose(
        self, spec: SparseSpec, model: ModelDescription, forms: AvailableForms
    ) -> TermChoice:
        most = spec.top_k or USUAL
        if spec.top_k is not None and not 1 <= spec.top_k <= model.vocab_size:
            raise InvalidInput(f"{SPARSE}.top_k", Reason.TERMS, value=most, most=model.vocab_size)
        if not 0 <= spec.min_weight < np.inf:
            raise InvalidInput(f"{SPARSE}.min_weight", Reason.MIN_WEIGHT)
        if spec.pieces and "text" not in model.accepts:
            raise InvalidInput(f"{SPARSE}.pieces", Reason.NO_PIECES)
        least, size, pieces = spec.min_weight, model.vocab_size, spec.pieces
        return TermChoice(min(most, size), least, size, of_queries=forms.query_terms, pieces=pieces)

    def whole(self, architecture: Architecture) -> TermChoice:
        return TermChoice(0, 0.0, architecture.vocab_size, architecture.token_terms)

    def one_size(self, choice: TermChoice) -> bool:
        return not choice.each_token

    def tensors(
        self, choice: TermChoice, place: Any, count: int, model: Architecture | ModelDescription
    ) -> tuple[Tensor, ...]:
        if choice.each_token:
            return (Tensor("sparse", "float32", (count, 1), ("token", "term")),)
        weights = Tensor("sparse", "float32", (choice.terms or choice.size,), self.axes)
        if not choice.terms:
            return (weights,)
        return weights, Tensor(INDICES, "uint32", weights.shape, self.axes)

    def begin(
        self, items: Sequence[Item], architecture: Architecture, longest: int, unit: bool, gpu: bool
    ) -> Work:
        work = Work(self, items)
        given = self.graph_shapes(architecture)
        work.names = [name for name in work.names if name in given]
        choices = [item.selection.get(self.name) for item in items]
        if all(
            each is None or each.is_query(item) for each, item in zip(choices, items, strict=True)
        ):
            work.names, work.runs = [], False
        return work

    def cut(self, choice: TermChoice, item: Item, outputs: Arrays, row: int) -> Arrays:
        if choice.is_query(item):
            assert choice.of_queries is not None
            weights = np.zeros_like(choice.of_queries)
            present = item.ids[item.matched]
            weights[present] = choice.of_queries[present]
        elif TOKEN_WEIGHTS in outputs:
            weights = outputs[TOKEN_WEIGHTS][row, : len(item.ids)]
        else:
            weights = outputs[TERMS][row]
        if not choice.terms:
            return {"sparse": np.array(weights, np.float32)}
        terms = np.arange(len(weights))
        if TOKEN_WEIGHTS in outputs:
            terms, weights = terms_of(item.ids, weights[:, 0])
        return dict(zip(("sparse", INDICES), largest(terms, weights, choice), strict=True))

    def graph_shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        if architecture.token_terms:
            return {TOKEN_WEIGHTS: (0, 0, 1)}
        return {TERMS: (0, architecture.vocab_size)}

    def message_of(self, spec: SparseSpec) -> pb.SparseOutput:
        message: pb.SparseOutput = messages().SparseOutput(
            top_k=spec.top_k, min_weight=spec.min_weight, pieces=spec.pieces
        )
        return message

    def spec_of(self, message: pb.SparseOutput) -> SparseSpec:
        top_k = message.top_k if message.HasField("top_k") else None
        return SparseSpec(top_k=top_k, min_weight=message.min_weight, pieces=message.pieces)

    def places_in(
        self, response: Any, choice: TermChoice, counts: Sequence[int], inputs: Sequence[Input]
    ) -> list[tuple[str, ...]]:
        return [tuple(item.terms.pieces) for item in response.items]

    def most_spelled(self, choice: TermChoice) -> int:
        return choice.terms if choice.pieces else 0

    def spelled(self, result: Arrays) -> Ids:
        return result[INDICES][: np.count_nonzero(result["sparse"])].astype(np.int64)

    def result(
        self,
        choice: TermChoice,
        place: tuple[str, ...] | None,
        arrays: Arrays,
        tokens: TokenList,
        model: ModelRef,
    ) -> SparseVector:
        weights, indices, pieces = arrays["sparse"], arrays[INDICES], place or ()
        count = int(np.count_nonzero(weights))
        require(not weights[count:].any(), "sparse has weights behind terms without one")
        require(len(pieces) == count * choice.pieces, f"{len(pieces)} pieces of {count} terms")
        weights, indices = weights[:count], indices[:count].astype(np.uint32)
        ascending = bool((indices[1:] > indices[:-1]).all())
        within = not count or int(indices[-1]) < choice.size
        require(ascending and within, f"{INDICES} are not terms of the vocabulary in their order")
        return SparseVector(indices, weights, choice.size, model, pieces)

    def counted(self, result: SparseVector, original: int, encoded: int) -> SparseVector:
        return dataclasses.replace(result, token_count=encoded, cut_tokens=original - encoded)


def terms_of(ids: Ids, weights: Floats) -> tuple[Ids, Floats]:
    """Return the different ids of a text, ascending, and the largest weight of each."""
    terms, places = np.unique(ids, return_inverse=True)
    largest = np.zeros(len(terms), np.float32)
    np.maximum.at(largest, places, weights)
    return terms, largest


def largest(terms: Ids, weights: Floats, choice: TermChoice) -> tuple[Floats, Array]:
    """Return the largest weights and their terms, float32 and uint32 [terms], by ascending term.

    Of equal weights at the cut, those of the first terms are kept. Behind the last are zeros.

    Args:
        terms: ids, ascending.
        weights: of each.
        choice: how many, and the least weight.
    """
    kept = np.flatnonzero((weights > 0) & (weights >= choice.least))
    if len(kept) > choice.terms:
        order = np.argsort(-weights[kept], kind="stable")[: choice.terms]
        kept = np.sort(kept[order])
    values, indices = np.zeros(choice.terms, np.float32), np.zeros(choice.terms, np.uint32)
    values[: len(kept)], indices[: len(kept)] = weights[kept], terms[kept]
    return values, indices
