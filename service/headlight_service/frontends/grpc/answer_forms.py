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
    FLOAT,
    FRAMING_BYTES,
    fill,
    header,
    item_of,
    model_ref,
    token_info,
)
from headlight_service.frontends.grpc.answer_frames import HEADER_LIMIT_BYTES


class UnaryForm:
    """One answer in one message. Its header is made when its size must be known.

    Attributes:
        header: of the answer, from `overhead_bytes` on.
    """

    header: pb.EncodeResponse

    def __init__(self, limits: Limits, *, dry_run: bool = False) -> None:
        """Of an answer within the limits; of a dry run, which has no data, its header is the answer."""
        self._limits, self._dry_run = limits, dry_run

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, hidden: Ids | None = None) -> int:
        """See AnswerForm."""
        self.header = header(ref, prepared)
        info, most = self.header.ByteSize(), self._limits.max_unary_response_bytes
        if self._dry_run:
            _check_header(info, most)
        elif info + FRAMING_BYTES + prepared.data_bytes > most:
            remedy = "ask for fewer layers or inputs, reduce attention, or use EncodeStream"
            raise _too_large(prepared, info + FRAMING_BYTES, most, remedy)
        return info

    def encode(self, answer: Answer) -> bytes:
        """Return the message of an answer. Once: it is not kept beside that."""
        response = fill(self.header, answer)
        del self.header
        return response.SerializeToString()


class StreamForm(UnaryForm):
    """One answer in several messages of a stream."""

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, hidden: Ids | None = None) -> int:
        """See AnswerForm."""
        self.header = header(ref, prepared)
        info, most = self.header.ByteSize(), self._limits.max_stream_output_bytes
        if prepared.data_bytes > most and not self._dry_run:
            remedy = "ask for fewer layers or inputs per request, or reduce attention"
            raise _too_large(prepared, 0, most, remedy)
        _check_header(info, HEADER_LIMIT_BYTES)
        return info


class OccludedForm:
    """The answer of Occlude."""

    _response: pb.OccludeResponse

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, hidden: Ids | None = None) -> int:
        """See AnswerForm."""
        assert hidden is not None
        moved = pb.Tensor(dtype=FLOAT, shape=[len(hidden)], data=bytes(4 * len(hidden)))  # as large as it will be
        item = item_of(prepared.inputs[0])
        self._response = pb.OccludeResponse(model=model_ref(ref), item=item, tokens=hidden, moved=moved)
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
        """See TokensForm. No more tokens are drawn once the answer is too large."""
        parts = [pb.TokenizeResponse(model=model_ref(ref)).SerializeToString()]  # protobuf merges what is concatenated
        size = len(parts[0])
        for done, each in enumerate(tokens, 1):
            parts.append(pb.TokenizeResponse(items=[token_info(each)]).SerializeToString())
            size += len(parts[-1])
            if size > self._limit_bytes:
                have = f"the answer to the first {done} of {inputs}" if done < inputs else "the answer"
                problem = f"{have} would have {size} bytes, over {self._limit_bytes}; send fewer or shorter inputs"
                raise InvalidInput("inputs", problem)
        return b"".join(parts)


def _too_large(prepared: Prepared, overhead: int, most: int, remedy: str) -> InvalidInput:
    size, fits = overhead + prepared.data_bytes, prepared.what_fits(most - overhead)
    field = prepared.largest if prepared.data_bytes > overhead else "outputs.token_info"
    return InvalidInput(field, f"the answer would have {size} bytes, over {most}{fits}; {remedy}")


def _check_header(info: int, limit_bytes: int) -> None:
    """Raise InvalidInput, with its size, if what an answer says beside its data is too much."""
    if info > limit_bytes:
        raise InvalidInput("outputs.token_info", f"would have {info} bytes; send fewer inputs per request")
