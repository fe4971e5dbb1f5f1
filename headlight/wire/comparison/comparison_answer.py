"""Decoding of answers to Compare, checked against the request; a misfit is a BadAnswer."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from headlight.comparison import (
    MEASURES,
    CompareSpec,
    Evidence,
    EvidenceSpec,
    MatchedTerms,
    PassageComparison,
    UnitWeights,
)
from headlight.description import ModelDescription
from headlight.evidence_methods import METHODS
from headlight.interface.arguments import Input
from headlight.outputs.contract import malformed, numbers_of, require
from headlight.pb import headlight_pb2 as pb
from headlight.results import Floats, TokenList
from headlight.spec import Span
from headlight.wire.answer_checks import check_model, check_token_list, finite_numbers, texts_of
from headlight.wire.client_codec import from_token_info

SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


@dataclasses.dataclass(frozen=True, slots=True)
class ExpectedComparison:
    """Expected contents of the answers to one call of `compare`.

    Attributes:
        model: the model as GetModel described it.
        name: name of the model as the caller gave it; "" stands for the described model.
        query: the query.
        spec: the request.

    Of a model that reranks, the answer has pairs of the query and a passage.
    """

    model: ModelDescription
    name: str
    query: Input
    spec: CompareSpec

    def tokens(self, item: pb.Item, given: Input, field: str) -> TokenList | None:
        """Return the tokens of query or passage; None: only scores were requested.

        Raises:
            BadAnswer: they do not fit the input.
        """
        require(item.token_count >= 1, f"{field}.token_count is {item.token_count}")
        if not self.spec.details:
            return None
        tokens = from_token_info(item.tokens)
        require(
            len(tokens) == item.token_count,
            f"{field}: {len(tokens)} tokens described of {item.token_count}",
        )
        check_token_list(tokens, given, self.model.vocab_size, f"{field}.tokens")
        return tokens

    def query_tokens(self, response: pb.CompareResponse) -> TokenList | None:
        """Return the query's tokens; None: only scores were requested, or it is part of each pair.

        Raises:
            BadAnswer: they do not fit the query.
        """
        if self.model.reranks:
            require(not response.HasField("query"), "a query beside pairs that it is part of")
            return None
        return self.tokens(response.query, self.query, "query")

    def decode(
        self, response: pb.CompareResponse, passages: Sequence[Input], first: int
    ) -> list[PassageComparison]:
        """Return the comparisons with some passages.

        Args:
            response: the answer.
            passages: the passages that it answers, or the pairs, in their order.
            first: index of the first of them.

        Raises:
            BadAnswer: the answer does not fit the request.
        """
        check_model(response.model, self.model, self.name)
        measure = MEASURES.get(self.model.score_output)
        if response.similarity not in (SIMILARITIES if measure is None else (measure,)):
            raise malformed(f"similarity is {response.similarity[:40]!r}")
        compared = list(response.passages)
        if [each.index for each in compared] != list(range(len(passages))):
            raise malformed(
                f"{len(compared)} comparisons, not in the order of {len(passages)} passages"
            )
        query = self.query_tokens(response)
        check_places("query_tokens", response.query_tokens, 0 if query is None else len(query))
        return [
            self._passage(response, each, given, first, 0 if query is None else len(query))
            for each, given in zip(compared, passages, strict=True)
        ]

    def _passage(
        self,
        response: pb.CompareResponse,
        message: pb.PassageComparison,
        given: Input,
        first: int,
        query_length: int,
    ) -> PassageComparison:
        spec, field = self.spec, f"passages[{message.index}]"
        tokens = self.tokens(message.item, given, f"{field}.item")
        count, queries = 0 if tokens is None else len(tokens), len(response.query_tokens)
        check_places(f"{field}.tokens", message.tokens, count)
        numbers = [message.score, message.max_sim_mean]
        if not np.isfinite(numbers).all():
            raise malformed(f"{field}.score and .max_sim_mean are {numbers}")
        fitting = (
            message.HasField("max_sim_mean") == spec.late_interaction
            and message.HasField("matrix") == (spec.matrix is not None)
            and [each.method for each in message.evidence]
            == [numbers_of("EvidenceMethod")[each.method] for each in spec.evidence]
        )
        require(fitting, f"{field} has other contents than were requested")
        matrix = None
        if spec.matrix is not None:
            all_tokens, compared = (query_length, count), (queries, len(message.tokens))
            shape = all_tokens if spec.contributions else compared
            matrix = finite_numbers(f"{field}.matrix", message.matrix, shape, spec.matrix)
        evidence = [
            self._evidence(
                f"{field}.evidence[{at}]", requested, each, given, count, queries, query_length
            )
            for at, (requested, each) in enumerate(
                zip(spec.evidence, message.evidence, strict=True)
            )
        ]
        for at, (requested, each) in enumerate(zip(spec.evidence, evidence, strict=True)):
            if requested.unit == "span":
                spans = requested.spans[first + message.index]
                _check_spans(f"{field}.evidence[{at}].characters", each, spans, requested.top_k)
        return PassageComparison(
            first + message.index,
            message.score,
            message.max_sim_mean if spec.late_interaction else None,
            tuple(evidence),
            tokens,
            tuple(message.tokens),
            matrix,
        )

    def _evidence(
        self,
        field: str,
        requested: EvidenceSpec,
        message: pb.Evidence,
        given: Input,
        count: int,
        queries: int,
        query_length: int,
    ) -> Evidence:
        require(message.HasField("terms") == (requested.method == "terms"), f"{field} has terms")
        if requested.method == "terms":
            terms, weights = self._terms(field, requested.top_k, message)
            return Evidence("terms", (), (), weights, terms=terms)
        weighted = self._weighted(field, requested.top_k, message, count, texts_of(given)[-1:])
        query = special = None
        pairs = self.model.reranks
        if of_query := pairs or requested.query_units:
            tokens, text = (count, given) if pairs else (query_length, self.query)
            query = self._weighted(
                f"{field}.query", requested.top_k, message.query, tokens, texts_of(text)[:1]
            )
        of_rest = (
            METHODS[requested.method].rest
            or (pairs and requested.method == "attention")
            or (self.model.multi_vector_dim > 0 and requested.method == "late_interaction")
        )
        if of_rest:
            special = self._weighted(f"{field}.special", None, message.special, count, ())
        has = message.HasField("query"), message.HasField("special")
        require(has == (of_query, of_rest), f"{field} has other sides than were requested")
        matched, cosines = tuple(message.matched_tokens), None
        if requested.method == "late_interaction":
            if len(matched) not in (0, queries) or max(matched, default=-1) >= count:
                raise malformed(f"{field} matches {len(matched)} tokens of {queries}")
            cosines = finite_numbers(
                f"{field}.matched_cosines", message.matched_cosines, (len(matched),)
            )
        units, characters, weights = weighted.units, weighted.characters, weighted.weights
        return Evidence(
            requested.method, units, characters, weights, matched, cosines, query, special
        )

    def _terms(
        self, field: str, top_k: int | None, message: pb.Evidence
    ) -> tuple[MatchedTerms, Floats]:
        """Return shared terms, and the products of their weights."""
        shared = message.terms
        terms, pieces = tuple(shared.terms), tuple(shared.pieces)
        count, most = len(terms), self.model.vocab_size
        query, passage, weights = (
            finite_numbers(f"{field}.{name}", tensor, (count,))
            for name, tensor in (
                ("terms.query", shared.query),
                ("terms.passage", shared.passage),
                ("weights", message.weights),
            )
        )
        fits = count == len(set(terms)) <= (top_k or count) and max(terms, default=-1) < most
        require(fits and len(pieces) in (0, count), f"{field}.terms are not those of a vocabulary")
        require((weights == query * passage).all(), f"{field}.weights are not products")
        return MatchedTerms(terms, pieces, query, passage), weights

    def _weighted(
        self,
        field: str,
        top_k: int | None,
        message: pb.Evidence | pb.UnitWeights,
        count: int,
        texts: Sequence[str],
    ) -> UnitWeights:
        """Return units with weights, of `count` tokens; `texts`: the text of their characters."""
        units = _units(f"{field}.units", message.units, count)
        most = len(units) if top_k is None else top_k
        require(len(units) <= most, f"{field} has {len(units)} units, and {most} were requested")
        weights = finite_numbers(f"{field}.weights", message.weights, (len(units),))
        if len(message.characters) != (len(units) if texts else 0):
            raise malformed(f"{field} has {len(message.characters)} spans for {len(units)} units")
        characters = tuple(Span(each.start, each.end) for each in message.characters)
        if any(not span.start <= span.end <= len(texts[0]) for span in characters):
            raise malformed(f"{field}.characters leave the text that was sent")
        return UnitWeights(units, characters, weights)


def _check_spans(field: str, evidence: Evidence, given: Sequence[Span], top_k: int | None) -> None:
    """Raise BadAnswer unless the units are the spans that were sent, or `top_k` of them."""
    spans = [(span.start, span.end) for span in evidence.characters]
    sent = [(span.start, span.end) for span in given]
    fits = spans == sent
    if top_k is not None:
        fits = len(set(spans)) == len(spans) == min(top_k, len(sent)) and set(spans) <= set(sent)
    require(fits, f"{field} are not the spans that were sent")


def check_places(field: str, places: Sequence[int], count: int) -> None:
    """Raise BadAnswer unless a list names tokens, of so many, in ascending order."""
    if len(places) and (list(places) != sorted(set(places)) or places[-1] >= count):
        raise malformed(f"{field} are not tokens of {count} in ascending order")


def _units(field: str, message: pb.Units, count: int) -> tuple[tuple[int, ...], ...]:
    tokens = list(message.tokens)
    bounds = list(message.starts) or list(range(len(tokens)))
    bounds.append(len(tokens))
    if max(tokens, default=-1) >= count or bounds[0] or bounds != sorted(set(bounds)):
        raise malformed(f"{field} do not name tokens of {count}")
    return tuple(tuple(tokens[begin:end]) for begin, end in itertools.pairwise(bounds))
