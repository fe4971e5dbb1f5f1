"""Comparison of a query with any number of passages, in as few calls as the limits allow."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import cast

from headlight.client.calls.list_work import (
    TOKEN_BYTES,
    Cost,
    ListWork,
    measure,
    response_bytes,
)
from headlight.comparison import (
    CompareSpec,
    Comparison,
    PassageComparison,
)
from headlight.description import ModelDescription
from headlight.errors import InvalidInput, Reason, renamed
from headlight.evidence_methods import METHODS
from headlight.interface.arguments import Input, Reading
from headlight.interface.comparison_arguments import PASSAGE, QUERY, checked_request
from headlight.outputs.contract import require
from headlight.outputs.sparse import USUAL
from headlight.pb import headlight_pb2 as pb
from headlight.results import TokenList
from headlight.spec import NUMBER_BYTES
from headlight.wire.answer_checks import PIECE_BYTES
from headlight.wire.client_codec import set_common, to_input
from headlight.wire.comparison.comparison_answer import ExpectedComparison
from headlight.wire.comparison.comparison_codec import evidence_requests, matrix_request

PASSAGE_BYTES = 96  # of a passage in an answer, at most, without its tokens
EVIDENCE_BYTES, UNIT_BYTES, MATCH_BYTES = 64, 28, 9  # of one method, and of its units and matches
TERM_BYTES = PIECE_BYTES + 17  # its number, its spelling, and three weights
SPAN_BYTES = 16  # in a request


class Compared(ListWork[pb.CompareRequest]):
    """A query and any number of passages. `compare` sorts; the service need not."""

    def __init__(
        self,
        model: ModelDescription,
        name: str,
        passages: Sequence[Input],
        query: Input,
        spec: CompareSpec,
        query_reading: Reading,
        passage_reading: Reading,
    ) -> None:
        pairs = model.reranks
        self._spec = spec = checked_request(query, passages, spec, pairs=pairs)
        self._passages = passages
        base = pb.CompareRequest(
            model=name,
            query=to_input(query, "query"),
            late_interaction=pb.LateInteraction() if spec.late_interaction else None,
            matrix=matrix_request(spec),
            evidence=evidence_requests(spec, range(0)),
        )
        _set_prompts(base, query_reading, passage_reading)
        most = model.limits.max_request_bytes or sys.maxsize
        with renamed(QUERY):
            [(_, tokens)] = measure([query], most)
        prompt = model.prompt_text(
            query_reading.get("prompt"), query_reading.get("prompt_name"), "query"
        )
        # A pair has the query's tokens, and its evidence units of both and of other tokens.
        queries = 0 if pairs else min(tokens + len(prompt.encode()), model.max_length)
        queries = max(queries, model.query_tokens)
        evidence_bytes = (3 if pairs else 1) * EVIDENCE_BYTES + MATCH_BYTES * queries
        item_bytes = PASSAGE_BYTES + len(spec.evidence) * evidence_bytes
        of_query = sum(each.query_units for each in spec.evidence)
        rests = sum(METHODS[each.method].rest for each in spec.evidence)
        item_bytes += (of_query + rests) * EVIDENCE_BYTES + of_query * UNIT_BYTES * queries
        item_bytes += sum(
            TERM_BYTES * min(each.top_k or USUAL, USUAL)
            for each in spec.evidence
            if each.method == "terms"
        )
        token_bytes = self._token_bytes(spec, queries)
        inputs = [(query, each) for each in passages] if pairs else passages
        with renamed(PASSAGE):
            super().__init__(
                model,
                base,
                cast("Sequence[Input]", inputs),
                query_reading if pairs else passage_reading,
                response_bytes(model),
                size=lambda tokens: item_bytes + token_bytes * tokens,
                shared=Cost(1, 0, queries, TOKEN_BYTES * queries),
            )
        self._expected = ExpectedComparison(model, name, query, spec)
        self._query: tuple[TokenList | None, tuple[int, ...]] | None = None
        self._similarity = ""
        self._comparisons: list[PassageComparison] = []
        self._matrix_bytes = 0

    @staticmethod
    def _token_bytes(spec: CompareSpec, queries: int) -> int:
        """Return the most bytes of one token of a passage in an answer."""
        cells = 0 if spec.matrix is None else queries * NUMBER_BYTES[spec.matrix]
        return (TOKEN_BYTES if spec.details else 0) + UNIT_BYTES * len(spec.evidence) + cells

    def _own_spans(self, at: int) -> tuple[int, int]:
        lists = [each.spans[at] for each in self._spec.evidence if each.spans]
        return sum(SPAN_BYTES * (1 + len(spans)) for spans in lists), 0

    def request(self, part: range) -> pb.CompareRequest:
        """Return the request for some of the passages, by index."""
        request = pb.CompareRequest()
        request.CopyFrom(self._base)
        del request.evidence[:]
        request.evidence.extend(evidence_requests(self._spec, part))
        request.passages.extend(to_input(self._passages[at], f"passages[{at}]") for at in part)
        return request

    def receive(self, part: range, response: pb.CompareResponse) -> None:
        """Take the answer to one request; they come in order.

        Raises:
            BadAnswer: it breaks the contract.
            InvalidInput: all matrices together are larger than the caller allows.
        """
        passages = self._inputs[part.start : part.stop]
        comparisons = self._expected.decode(response, passages, part.start)
        self.check_origin(response.model)
        query = self._expected.query_tokens(response)
        described = query, tuple(response.query_tokens)
        self._query = self._query or described
        require(described == self._query, "two answers have different tokens of one query")
        self._similarity = response.similarity
        matrices = (each.matrix for each in comparisons)
        self._matrix_bytes += sum(matrix.nbytes for matrix in matrices if matrix is not None)
        most = self._spec.matrix_max_bytes
        if most is not None and self._matrix_bytes > most:
            raise InvalidInput(
                "matrix_max_bytes", Reason.MATRICES_BYTES, size=self._matrix_bytes, most=most
            )
        self._comparisons += comparisons

    def result(self) -> Comparison:
        """Return the comparison after all answers."""
        passages = self._comparisons
        if self._spec.sort:
            passages = sorted(passages, key=lambda each: -each.score)
        tokens, places = self._query or (None, ())
        return Comparison(
            self._similarity, tuple(passages), tokens, places, self._origin or self._model.ref
        )


def _set_prompts(
    request: pb.CompareRequest, query_reading: Reading, passage_reading: Reading
) -> None:
    """Set the reading of texts, the priority and both prompts. Raises InvalidInput."""
    for side, names, reading in (
        ("query", QUERY, query_reading),
        ("passage", PASSAGE, passage_reading),
    ):
        with renamed(names):
            set_common(request, reading)
        for key, field in (("prompt_name", "prompt_name"), ("prompt", "prompt_text")):
            if (given := reading.get(key)) is not None:
                setattr(request, f"{side}_{field}", given)
