"""Answers of tei.v1 as messages: their sizes, and their bytes."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from headlight.description import Limits
from headlight.errors import InvalidInput, Phrase, Reason
from headlight.results import ModelRef, TokenList
from headlight.runtime.values import Floats
from headlight_service.core.models import ServedModel
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.core.requests.request import Pair, Request
from headlight_service.frontends.contract.answer_encoding import raw
from headlight_service.frontends.grpc.tei import tei_messages as pb
from headlight_service.frontends.scoring import Scored, scored
from headlight_service.frontends.tei.service_info import ComputeReport, compute_report
from headlight_service.frontends.tei.tei_requests import terms_of, token_vectors
from headlight_service.frontends.tei.token_table import token_rows

METADATA_BYTES = 128  # at most, with the tag and length of the numbers
ROW_BYTES = 16  # at most: tags and lengths of one token's vector, one rank or one label
FIRST_FIELD = b"\x0a"  # tag of field 1 with a length: a message, or packed numbers


class VectorForm:
    """The answer to one text: its vector, one vector for each of its tokens, or its terms.

    Attributes:
        report: size and times of the answer, set by `encode`.
    """

    report: ComputeReport

    def __init__(self, model: ServedModel, request: Request) -> None:
        self._model, self._request = model, request

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: object = None) -> int:
        """Return the bytes beside the numbers. Raises InvalidInput: the answer is too large."""
        overhead = METADATA_BYTES
        if "tokens" in prepared.selection or "multi_vector" in prepared.selection:
            overhead += ROW_BYTES * prepared.tokens
        if "sparse" in prepared.selection:
            overhead += ROW_BYTES * prepared.selection["sparse"].terms
        size, most = overhead + prepared.data_bytes, self._model.limits.max_unary_response_bytes
        if size > most:
            raise _too_large(size, most, Phrase.SHORTEN_OR_STREAM)
        return overhead

    def encode(self, answer: Answer) -> bytes:
        """Return the message of an answer."""
        [result] = answer.results
        self.report = compute_report(self._model, self._request, answer)
        metadata = _metadata(self.report)
        # Protobuf merges concatenated messages; packed floats are the array's own bytes.
        rest = pb.EmbedResponse(metadata=metadata).SerializeToString()
        if "sparse" in result:
            [terms] = terms_of(answer)
            values = [
                pb.SparseValue(index=int(term), value=float(value))
                for term, value in zip(*terms, strict=True)
            ]
            return pb.EmbedSparseResponse(sparse_embeddings=values).SerializeToString() + rest
        if "pooled" in result:
            return packed(result["pooled"]) + rest
        # The other responses have their metadata in the same field.
        return b"".join([*map(_row, token_vectors(result)), rest])


class ScoresForm:
    """The answer of scores: ranks of texts, or labels of one.

    Attributes:
        report: size and times of the answer, set by `encode`.
    """

    report: ComputeReport

    def __init__(self, model: ServedModel, request: Request, *, raw: bool) -> None:
        self._model, self._request, self._raw = model, request, raw

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: object = None) -> int:
        """Return the bytes beside the numbers. Raises InvalidInput: the answer is too large."""
        overhead = METADATA_BYTES + self._own_bytes()
        size, most = overhead + prepared.data_bytes, self._model.limits.max_unary_response_bytes
        if size > most:
            raise _too_large(size, most, Phrase.FEWER_OR_SHORTER)
        return overhead

    def encode(self, answer: Answer) -> bytes:
        """Return the message of an answer."""
        self.report = compute_report(self._model, self._request, answer)
        scores = scored(answer, self._model, raw=self._raw)
        message = self._message(scores)
        message.metadata.CopyFrom(_metadata(self.report))
        return message.SerializeToString()

    def _own_bytes(self) -> int:
        """Return the most bytes of an answer beside the numbers and the metadata."""
        raise NotImplementedError

    def _message(self, scores: Scored) -> pb.RerankResponse | pb.PredictResponse:
        raise NotImplementedError


class RanksForm(ScoresForm):
    """The answer of Rerank."""

    def __init__(self, model: ServedModel, request: Request, *, raw: bool, texts: bool) -> None:
        """Prepare. `texts`: whether the answer has the texts, too."""
        super().__init__(model, request, raw=raw)
        self._texts = texts

    def _own_bytes(self) -> int:
        texts = self._request.size_bytes if self._texts else 0
        return ROW_BYTES * len(self._request.inputs) + texts

    def _message(self, scores: Scored) -> pb.RerankResponse:
        texts = [each.second for each in self._request.inputs if isinstance(each, Pair)]
        return pb.RerankResponse(
            ranks=[
                pb.Rank(index=at, text=texts[at] if self._texts else None, score=float(score))
                for at, score in scores.ranks()
            ]
        )


class LabelsForm(ScoresForm):
    """The answer of Predict and PredictPair."""

    def _own_bytes(self) -> int:
        return sum(ROW_BYTES + len(name.encode()) for name in self._model.description.labels)

    def _message(self, scores: Scored) -> pb.PredictResponse:
        [labels] = scores.labels(self._model.description.labels)
        return pb.PredictResponse(
            predictions=[pb.Prediction(score=float(score), label=label) for label, score in labels]
        )


def _metadata(report: ComputeReport) -> pb.Metadata:
    return pb.Metadata(
        compute_chars=report.characters,
        compute_tokens=report.tokens,
        total_time_ns=report.total_ns,
        tokenization_time_ns=report.tokenization_ns,
        queue_time_ns=report.queue_ns,
        inference_time_ns=report.inference_ns,
    )


def packed(numbers: Floats) -> bytes:
    """Return float32 numbers as the packed field 1 of a message."""
    data = raw(numbers).tobytes()
    return FIRST_FIELD + _length(len(data)) + data


def _row(numbers: Floats) -> bytes:
    """Return one TokenEmbedding as the field 1 of a message."""
    row = packed(numbers)
    return FIRST_FIELD + _length(len(row)) + row


@functools.lru_cache(maxsize=64)
def _length(value: int) -> bytes:
    """Return a number as protobuf writes lengths: 7 bits a byte, the lowest first."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


class TokensMessage:
    """The answer of Tokenize."""

    def __init__(self, limits: Limits, text: str, *, add_special_tokens: bool) -> None:
        """Prepare.

        Args:
            limits: of the answer.
            text: the text that is tokenised, its prompt included.
            add_special_tokens: whether to describe the tokens around it.
        """
        self._limit_bytes = limits.max_unary_response_bytes
        self._text, self._add = text, add_special_tokens

    def encode(self, ref: ModelRef, tokens: Iterable[TokenList], inputs: int) -> bytes:
        """Return the answer. Raises InvalidInput: it is too large."""
        [listed] = tokens
        rows = token_rows(self._text, listed, add_special_tokens=self._add)
        answer = pb.EncodeResponse(tokens=[pb.SimpleToken(**row._asdict()) for row in rows])
        message = answer.SerializeToString()
        if len(message) > self._limit_bytes:
            raise _too_large(len(message), self._limit_bytes, Phrase.SHORTER_TEXT)
        return message


def _too_large(size: int, most: int, remedy: Phrase) -> InvalidInput:
    return InvalidInput("inputs", Reason.ANSWER_BYTES, size=size, most=most, fits="", remedy=remedy)
