"""How large answers are in messages of gRPC, and which it cannot carry."""

from __future__ import annotations

from collections.abc import Iterable

from headlight.description import Limits
from headlight.errors import InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef, TokenList
from headlight.runtime.values import Ids
from headlight_service.core.occlusion import Occluded
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.frontends.grpc.answer_encoding import (
    FRAMING_BYTES,
    fill,
    header,
    occlusion,
    tokenize_answer,
)
from headlight_service.frontends.grpc.answer_frames import HEADER_LIMIT_BYTES


class UnaryForm:
    """One answer in one message. Its header is made when its size must be known.

    Attributes:
        header: of the answer, from `overhead_bytes` on.
    """

    def __init__(self, limits: Limits, *, dry_run: bool = False) -> None:
        """Of an answer within the limits; of a dry run, which has no data, its header is the answer."""
        self._limits, self._dry_run = limits, dry_run
        self.header: pb.EncodeResponse

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, hidden: Ids | None = None) -> int:
        """See AnswerForm."""
        self.header = header(ref, prepared)
        info, most = self.header.ByteSize(), self._limits.max_unary_response_bytes
        if self._dry_run:
            check_header(info, most)
        elif info + FRAMING_BYTES + prepared.data_bytes > most:
            size = info + FRAMING_BYTES + prepared.data_bytes
            of_data = prepared.data_bytes > info + FRAMING_BYTES
            field = prepared.largest if of_data else "outputs.token_info"
            fits = prepared.what_fits(most - info - FRAMING_BYTES)
            remedy = "ask for fewer layers or inputs, reduce attention, or use EncodeStream"
            problem = f"the answer would have {size} bytes, over {most}{fits}; {remedy}"
            raise InvalidInput(field, problem)
        return info

    def response(self, answer: Answer) -> pb.EncodeResponse:
        """Return the whole answer."""
        if not self._dry_run:
            return fill(self.header, answer)
        self.header.timings.tokenize_ns = answer.timings.tokenize_ns
        return self.header

    def encode(self, answer: Answer) -> bytes:
        """Return the message of an answer. Once: it is not kept beside that."""
        response = self.response(answer)
        del self.header
        return response.SerializeToString()


class StreamForm(UnaryForm):
    """One answer in several messages of a stream."""

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, hidden: Ids | None = None) -> int:
        """See AnswerForm."""
        self.header = header(ref, prepared)
        size, most = prepared.data_bytes, self._limits.max_stream_output_bytes
        if size > most and not self._dry_run:
            remedy = "ask for fewer layers or inputs per request, or reduce attention"
            problem = f"the answer would have {size} bytes, over {most}{prepared.what_fits(most)}; {remedy}"
            raise InvalidInput(prepared.largest, problem)
        info = self.header.ByteSize()
        check_header(info, HEADER_LIMIT_BYTES)
        return info


class OccludedForm:
    """The answer of Occlude."""

    def __init__(self) -> None:
        self._response: pb.OccludeResponse

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, hidden: Ids | None = None) -> int:
        """See AnswerForm."""
        assert hidden is not None
        self._response = occlusion(ref, prepared, hidden)
        return self._response.ByteSize()

    def encode(self, answer: Answer) -> bytes:
        """Return the message of an answer."""
        assert isinstance(answer, Occluded)
        self._response.moved.data = answer.moved.astype("<f4").tobytes()
        return self._response.SerializeToString()


class TokenizeForm:
    """The answer of Tokenize: megabytes of it are some time's work, for which nobody else should wait."""

    def __init__(self, limits: Limits) -> None:
        self._limit_bytes = limits.max_unary_response_bytes

    def encode(self, ref: ModelRef, tokens: Iterable[TokenList], inputs: int) -> bytes:
        """See TokensForm."""
        return tokenize_answer(ref, tokens, inputs, self._limit_bytes)


def check_header(info: int, limit_bytes: int) -> None:
    """Raise InvalidInput, with its size, if what an answer says beside its data is too much."""
    if info > limit_bytes:
        problem = f"would have {info} bytes; send fewer inputs per request"
        raise InvalidInput("outputs.token_info", problem)
