"""Answers of Compare as messages and as JSON: their sizes, and their encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from numpy.typing import NDArray

from headlight.comparison import CompareSpec
from headlight.errors import InvalidInput, Reason
from headlight.outputs.contract import numbers_of
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef
from headlight.runtime.comparison.comparison_layout import NUMBERS_OF_TERM, ComparisonLayout
from headlight.runtime.comparison.passage_comparison import (
    EvidenceNumbers,
    PassageNumbers,
    UnitNumbers,
)
from headlight.runtime.comparison.term_matches import TermMatches
from headlight.runtime.spelling import Spelling
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.frontends.contract.answer_encoding import (
    FLOAT,
    FRAMING_BYTES,
    item_of,
    model_ref,
    raw,
    set_timings,
    usage_of,
)
from headlight_service.frontends.contract.json_answer_forms import (
    FRAMING_BYTES as JSON_FRAMING_BYTES,
)
from headlight_service.frontends.contract.json_answer_forms import (
    NumberEncoding,
    put_numbers,
    text_bytes,
)
from headlight_service.frontends.contract.json_encoding import json_value

STREAM_COMPARISON_BYTES = 3 << 20  # with all framing, a frame that every client can receive
PASSAGE_BYTES = 64  # at most: score, max_sim_mean, and the framing of a matrix
EVIDENCE_BYTES = 64  # at most: tags, lengths and shapes of one evidence
SPAN_BYTES = 14  # of a TextSpan, whose offsets are below 2^28
INTEGER_BYTES = 5  # of a token's index in a message; below 2^35
JSON_PASSAGE_BYTES, JSON_EVIDENCE_BYTES = 256, 256
JSON_SPAN_BYTES = 48  # {"start":268435456,"end":268435456,"text":0},
JSON_INTEGER_BYTES = 10


class CompareForm:
    """One answer in one message. `overhead_bytes` makes what is known before it is computed."""

    _response: pb.CompareResponse
    _spec: CompareSpec

    def __init__(self, limit_bytes: int, *, dry_run: bool = False) -> None:
        """Prepare the form of one answer of at most so many bytes; a dry run has no numbers."""
        self._limit_bytes, self._dry_run = limit_bytes, dry_run

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, layout: ComparisonLayout) -> int:
        """Return the most bytes that the answer can have. Raises InvalidInput: it is too large."""
        self._response, self._spec = _known(ref, prepared, layout), layout.spec
        size = self._response.ByteSize() + FRAMING_BYTES
        if not self._dry_run:
            size += layout.data_bytes + _index_bytes(layout)
            size += _term_bytes(layout, prepared.spelling, INTEGER_BYTES)
        if size > self._limit_bytes:
            raise _too_large(size, self._limit_bytes, len(layout.passages))
        return size

    def message(self, answer: Answer) -> pb.CompareResponse:
        """Return the message of an answer; call it once. It needs what is known, and drops it."""
        response = self._response
        del self._response
        _fill(response, answer, self._spec)
        return response

    def encode(self, answer: Answer) -> bytes:
        """Return the bytes of `message`."""
        return self.message(answer).SerializeToString()


class JsonCompareForm:
    """One answer as JSON.

    Attributes:
        size: the most bytes that the answer can have, after `overhead_bytes`.
    """

    _response: pb.CompareResponse
    _spec: CompareSpec

    def __init__(
        self, encoding: NumberEncoding, limit_bytes: int, *, dry_run: bool = False
    ) -> None:
        """Prepare the form of one answer; see JsonEncodeForm."""
        self._encoding, self._limit_bytes, self._dry_run = encoding, limit_bytes, dry_run
        self.size = 0

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, layout: ComparisonLayout) -> int:
        """Return the most bytes that the answer can have. Raises InvalidInput: it is too large."""
        self._response, self._spec = _known(ref, prepared, layout), layout.spec
        size = len(orjson.dumps(json_value(self._response))) + JSON_FRAMING_BYTES
        if not self._dry_run:
            size += _json_bytes(layout, self._encoding)
            size += _term_bytes(layout, prepared.spelling, JSON_INTEGER_BYTES)
        if size > self._limit_bytes:
            raise _too_large(size, self._limit_bytes, len(layout.passages))
        self.size = size
        return size

    def encode(self, answer: Answer) -> bytes:
        """Return the answer as JSON; call it once."""
        response, encoding = self._response, self._encoding
        del self._response
        numbers = _fill(response, answer, self._spec, with_data=False)
        document = json_value(response)
        for passage, compared in zip(document["passages"], numbers, strict=False):
            for evidence, weighed in zip(passage["evidence"], compared.evidence, strict=True):
                for name, side in (("query", weighed.query), ("special", weighed.special)):
                    if side is not None:
                        weights = evidence[name]["weights"]
                        put_numbers(weights, encoding, [side.weights], single=True)
                put_numbers(evidence["weights"], encoding, [weighed.weights], single=True)
                if weighed.terms is not None:
                    for name, each in (
                        ("query", weighed.terms.query),
                        ("passage", weighed.terms.passage),
                    ):
                        put_numbers(evidence["terms"][name], encoding, [each], single=True)
                if weighed.matched is not None:
                    cosines = weighed.matched.cosines
                    put_numbers(evidence["matched_cosines"], encoding, [cosines], single=True)
            if compared.matrix is not None:
                put_numbers(passage["matrix"], encoding, [compared.matrix], single=True)
        return orjson.dumps(document)


def _known(ref: ModelRef, prepared: Prepared, layout: ComparisonLayout) -> pb.CompareResponse:
    """Return the answer without what is computed."""
    passages = [item_of(each) for each in prepared.inputs]
    query = None if layout.of_pairs else passages.pop(0)
    vectors = layout.spec.token_vectors
    return pb.CompareResponse(
        model=model_ref(ref),
        similarity=layout.measure,
        query=query,
        query_tokens=layout.query.tolist() if vectors else (),
        passages=[
            pb.PassageComparison(
                index=at, item=item, tokens=planned.compared.tolist() if vectors else ()
            )
            for at, (item, planned) in enumerate(zip(passages, layout.passages, strict=True))
        ],
        usage=usage_of(prepared),
        data_bytes=layout.data_bytes,
    )


def _fill(
    response: pb.CompareResponse, answer: Answer, spec: CompareSpec, *, with_data: bool = True
) -> Sequence[PassageNumbers]:
    """Put timings and numbers into an answer; return the numbers. A dry run has none."""
    set_timings(response, answer.timings)
    passages: Sequence[PassageNumbers] | None = answer.numbers
    if passages is None:
        return ()
    known = list(response.passages)
    del response.passages[:]
    for numbers in passages:
        passage = known[numbers.index]
        passage.score = numbers.score
        if numbers.max_sim_mean is not None:
            passage.max_sim_mean = numbers.max_sim_mean
        for each, weighed in zip(spec.evidence, numbers.evidence, strict=True):
            made = _evidence(
                numbers_of("EvidenceMethod")[each.method], weighed, with_data=with_data
            )
            if weighed.terms is not None:
                _put_terms(made.terms, weighed.terms, answer.prepared.spelling, with_data=with_data)
            passage.evidence.append(made)
        if numbers.matrix is not None and spec.matrix is not None:
            dtype = numbers_of("DataType")[spec.matrix]
            passage.matrix.CopyFrom(_tensor(numbers.matrix, with_data, dtype))
    response.passages.extend([known[numbers.index] for numbers in passages])
    return passages


def _evidence(
    method: pb.EvidenceMethod, weighed: EvidenceNumbers, *, with_data: bool
) -> pb.Evidence:
    message, matched = pb.Evidence(method=method), weighed.matched
    _put_units(message, weighed, with_data=with_data)
    if weighed.query is not None:
        _put_units(message.query, weighed.query, with_data=with_data)
    if weighed.special is not None:
        _put_units(message.special, weighed.special, with_data=with_data)
    if matched is not None:
        message.matched_tokens.extend(matched.rows.tolist())
        message.matched_cosines.CopyFrom(_tensor(matched.cosines, with_data))
    return message


def _put_units(
    message: pb.Evidence | pb.UnitWeights, weighed: UnitNumbers, *, with_data: bool
) -> None:
    units = weighed.units
    single = len(units.tokens) == len(units)
    message.units.SetInParent()
    message.units.tokens.extend(units.tokens.tolist())
    message.units.starts.extend(() if single else units.starts.tolist())
    message.weights.CopyFrom(_tensor(weighed.weights, with_data))
    if units.characters is not None:
        begins, ends = units.characters[:2].tolist()
        message.characters.extend(map(_text_span, begins, ends))


def _put_terms(
    message: pb.MatchedTerms, matches: TermMatches, spelling: Spelling | None, *, with_data: bool
) -> None:
    message.terms.extend(matches.terms.tolist())
    message.pieces.extend(() if spelling is None else spelling.pieces(matches.terms))
    message.query.CopyFrom(_tensor(matches.query, with_data))
    message.passage.CopyFrom(_tensor(matches.passage, with_data))


def _text_span(start: int, end: int) -> pb.TextSpan:
    return pb.TextSpan(start=start, end=end)


def _tensor(array: NDArray[Any], with_data: bool, dtype: pb.DataType = FLOAT) -> pb.Tensor:
    return pb.Tensor(
        dtype=dtype, shape=array.shape, data=raw(array).tobytes() if with_data else b""
    )


def _index_bytes(layout: ComparisonLayout) -> int:
    """Return the most bytes of evidence besides its numbers."""
    return sum(
        PASSAGE_BYTES
        + sum(
            EVIDENCE_BYTES
            + (tokens + count + len(layout.query)) * INTEGER_BYTES
            + count * SPAN_BYTES
            for count, tokens in _counts(layout, place)
        )
        for place in range(len(layout.passages))
    )


def _json_bytes(layout: ComparisonLayout, encoding: NumberEncoding) -> int:
    """Return the most bytes of what is computed, as JSON."""
    size, queries = 0, len(layout.query)
    for place, passage in enumerate(layout.passages):
        shapes = list[list[int]]()
        size += JSON_PASSAGE_BYTES
        for count, tokens in _counts(layout, place):
            integers = tokens + count + queries
            size += JSON_EVIDENCE_BYTES + integers * JSON_INTEGER_BYTES + count * JSON_SPAN_BYTES
            shapes += [[count], [queries]]
        shapes += [[layout.most_terms]] * NUMBERS_OF_TERM
        size += text_bytes(encoding, "float32", shapes)
        if layout.spec.matrix is not None:
            size += text_bytes(encoding, layout.spec.matrix, [[*layout.matrix_shape(passage)]])
    return size


def _term_bytes(layout: ComparisonLayout, spelling: Spelling | None, integer_bytes: int) -> int:
    """Return the most bytes of the numbers of shared terms and of their spelling."""
    most = layout.most_terms
    spelled = 0 if spelling is None else spelling.most_bytes(most)
    return len(layout.passages) * (spelled + most * integer_bytes)


def _counts(layout: ComparisonLayout, place: int) -> list[tuple[int, int]]:
    """Return the most units that an answer has of each kind of evidence, and their tokens."""
    units = layout.passages[place].units
    return [
        counted
        for spec, each in zip(layout.spec.evidence, units, strict=True)
        for counted in each.returned(spec)
    ]


def _too_large(size: int, most: int, passages: int) -> InvalidInput:
    return InvalidInput(
        "passages", Reason.COMPARISON_BYTES, size=size, most=most, passages=passages
    )
