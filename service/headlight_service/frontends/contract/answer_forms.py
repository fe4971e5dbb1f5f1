"""Answers as gRPC messages: their sizes, the limits that gRPC sets, and the frames of a stream.

Frames are made one by one, as they are sent, and any client can receive them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from headlight.description import Limits
from headlight.errors import InvalidInput, Phrase, Reason
from headlight.interface.attention_grid import grid
from headlight.outputs.contract import numbers_of
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef, TokenList
from headlight.runtime.plans.occlude import OcclusionNumbers
from headlight.runtime.values import Ids
from headlight_service.core.admission.admission_control import SMALL_ANSWER_BYTES
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.frontends.contract.answer_encoding import (
    FLOAT,
    FRAMING_BYTES,
    fill,
    header,
    item_of,
    model_ref,
    raw,
    set_details,
    token_info,
)

FRAME_LIMIT_BYTES = 4 << 20  # the default receive limit of gRPC clients
CHUNK_BYTES = SMALL_ANSWER_BYTES  # per chunk; larger ones are no faster and delay other answers
HEADER_LIMIT_BYTES = FRAME_LIMIT_BYTES - CHUNK_BYTES - 4096  # with a chunk: one frame


class UnaryForm:
    """One answer in one message. `overhead_bytes` makes its header.

    Attributes:
        header: header of the answer, set by `overhead_bytes`.
    """

    header: pb.EncodeResponse

    def __init__(self, limits: Limits, *, dry_run: bool = False) -> None:
        """Store the limits of an answer; the answer to a dry run is its header, without data."""
        self._limits, self._dry_run = limits, dry_run

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: object = None) -> int:
        """Make the header, and return its size. Raises InvalidInput: the answer is too large."""
        self.header = header(ref, prepared)
        info = self.header.ByteSize() + prepared.spelled_bytes
        most = self._limits.max_unary_response_bytes
        if self._dry_run:
            _check_header(prepared, info, most)
        elif info + FRAMING_BYTES + prepared.data_bytes > most:
            raise _too_large(prepared, info + FRAMING_BYTES, most, Phrase.LESS_OF_ONE_MESSAGE)
        return info

    def encode(self, answer: Answer) -> bytes:
        """Return the message of an answer; call it once. It needs the header, and drops it."""
        response = fill(self.header, answer)
        del self.header
        return response.SerializeToString()


class StreamForm(UnaryForm):
    """One answer in several messages of a stream."""

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, details: object = None) -> int:
        """Make the header, and return its size. Raises InvalidInput: the answer is too large."""
        self.header = header(ref, prepared)
        info = self.header.ByteSize() + prepared.spelled_bytes
        most = self._limits.max_stream_output_bytes
        if prepared.data_bytes > most and not self._dry_run:
            raise _too_large(prepared, 0, most, Phrase.LESS_OF_A_REQUEST)
        _check_header(prepared, info, HEADER_LIMIT_BYTES)
        return info


def frames(
    request_id: str, header: pb.EncodeResponse, answer: Answer
) -> Iterator[pb.EncodeStreamResponse]:
    """Yield the frames that answer one request of a stream.

    Args:
        request_id: the client's id of the request.
        header: the answer without data and timings; at most HEADER_LIMIT_BYTES.
        answer: the answer to send.

    Yields:
        One `response` if the data fits into a chunk, or for a dry run; else `header`, chunks of
        whole rows, `end`. Each stays below FRAME_LIMIT_BYTES.
    """
    size = answer.prepared.data_bytes
    if size <= CHUNK_BYTES or not answer.results:
        yield pb.EncodeStreamResponse(id=request_id, response=fill(header, answer))
        return
    set_details(header, answer)
    yield pb.EncodeStreamResponse(id=request_id, header=header)
    count = 0
    for chunk in _chunks(answer):
        count += 1
        yield pb.EncodeStreamResponse(id=request_id, chunk=chunk)
    yield pb.EncodeStreamResponse(id=request_id, end=pb.StreamEnd(chunks=count, data_bytes=size))


def _chunks(answer: Answer) -> Iterator[pb.Chunk]:
    """Yield chunks in the order of each output's `data`: an offset is the sum of earlier sizes."""
    offset, tensor = 0, ""
    for part in answer.parts():
        if part.tensor != tensor:  # each has data of its own
            offset, tensor = 0, part.tensor
        kind = part.output.name if part.output.stacked else tensor
        for layer, head, row, piece in _pieces(part.array, part.axes):
            yield pb.Chunk(
                output=numbers_of("OutputKind")[kind],
                item=part.item,
                layer=layer,
                head_begin=head,
                head_end=head + piece.shape[0],
                row_begin=row,
                row_end=row + piece.shape[1],
                offset_bytes=offset,
                data=piece.tobytes(),
            )
            offset += piece.nbytes


def _pieces(
    part: NDArray[Any], axes: Sequence[str]
) -> Iterator[tuple[int, int, int, NDArray[Any]]]:
    """Cut one item's tensor into pieces of at most CHUNK_BYTES, or one row if a row is larger.

    Yields:
        Layer, first head and first row of a piece [heads, rows, width]: several heads, or rows of
        one.
    """
    layers, heads, rows, width = grid(axes, part.shape)
    whole = raw(part).reshape(layers, heads, rows, width)
    row_bytes = width * whole.itemsize
    most_rows = max(1, CHUNK_BYTES // row_bytes)
    most_heads = max(1, most_rows // rows)
    for place in itertools.product(
        range(layers), range(0, heads, most_heads), range(0, rows, most_rows)
    ):
        layer, head, row = place
        yield *place, whole[layer, head : head + most_heads, row : row + most_rows]


class OccludedForm:
    """The answer of Occlude."""

    _response: pb.OccludeResponse

    def __init__(self, *, target: bool = False) -> None:
        """Prepare the form of one answer, with a fall if there is a target."""
        self._target = target

    def overhead_bytes(self, ref: ModelRef, prepared: Prepared, hidden: Ids) -> int:
        """Make the answer without its numbers, and return its size. It has no other data."""
        # Zeros of the final size.
        moved = pb.Tensor(dtype=FLOAT, shape=[len(hidden)], data=bytes(4 * len(hidden)))
        item = item_of(prepared.inputs[0])
        self._response = pb.OccludeResponse(
            model=model_ref(ref),
            item=item,
            tokens=hidden,
            moved=moved,
            fall=moved if self._target else None,
            similarity=1.0 if self._target else None,
        )
        return self._response.ByteSize()

    def encode(self, answer: Answer) -> bytes:
        """Return the message of an answer."""
        numbers: OcclusionNumbers = answer.numbers
        self._response.moved.data = raw(numbers.moved).tobytes()
        if numbers.fall is not None:
            self._response.fall.data = raw(numbers.fall).tobytes()
            self._response.similarity = numbers.similarity
        return self._response.SerializeToString()


class TokenizeForm:
    """The answer of Tokenize. Megabytes of it take time, and should delay no other call."""

    def __init__(self, limits: Limits) -> None:
        self._limit_bytes = limits.max_unary_response_bytes

    def encode(self, ref: ModelRef, tokens: Iterable[TokenList], inputs: int) -> bytes:
        """Return the answer. Raises InvalidInput once it is too large, and reads no more tokens."""
        # Protobuf merges concatenated messages.
        parts = [pb.TokenizeResponse(model=model_ref(ref)).SerializeToString()]
        size = len(parts[0])
        for done, each in enumerate(tokens, 1):
            parts.append(pb.TokenizeResponse(items=[token_info(each)]).SerializeToString())
            size += len(parts[-1])
            if size > self._limit_bytes:
                raise InvalidInput(
                    "inputs",
                    Reason.TOKENS_BYTES if done < inputs else Reason.ALL_TOKENS_BYTES,
                    done=done,
                    inputs=inputs,
                    size=size,
                    most=self._limit_bytes,
                )
        return b"".join(parts)


def _too_large(prepared: Prepared, overhead: int, most: int, remedy: Phrase) -> InvalidInput:
    size, fits = overhead + prepared.data_bytes, prepared.what_fits(most - overhead)
    field = (
        prepared.largest if prepared.data_bytes > overhead else prepared.largest_details(overhead)
    )
    return InvalidInput(field, Reason.ANSWER_BYTES, size=size, most=most, remedy=remedy, **fits)


def _check_header(prepared: Prepared, info: int, limit_bytes: int) -> None:
    """Raise InvalidInput, with the size, if an answer's header is too large."""
    if info > limit_bytes:
        raise InvalidInput(prepared.largest_details(info), Reason.TOKEN_INFO_BYTES, size=info)
