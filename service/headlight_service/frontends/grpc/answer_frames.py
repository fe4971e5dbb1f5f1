"""Cutting an answer into frames that any client can receive. Frames are made one by one, as they are sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from headlight.pb import headlight_pb2 as pb
from headlight.wire.attention_codec import OUTPUT_KINDS, grid
from headlight_service.core.admission.admission_control import SMALL_ANSWER_BYTES
from headlight_service.core.requests.answer import Answer
from headlight_service.frontends.grpc.answer_encoding import fill, raw, set_timings

FRAME_LIMIT_BYTES = 4 << 20  # what gRPC clients receive unless told otherwise
CHUNK_BYTES = SMALL_ANSWER_BYTES  # data per chunk; larger ones are no faster and would hold up other answers
HEADER_LIMIT_BYTES = FRAME_LIMIT_BYTES - CHUNK_BYTES - 4096  # so that a header and a chunk's worth of data fit into one


class Place(NamedTuple):
    """Where a piece of a tensor belongs: see pb.Chunk."""

    layer: int
    heads: range
    rows: range


def frames(request_id: str, header: pb.EncodeResponse, answer: Answer) -> Iterator[pb.EncodeStreamResponse]:
    """Yield the frames that answer one request of a stream.

    Args:
        request_id: the caller's.
        header: the answer without data and timings; at most HEADER_LIMIT_BYTES.
        answer: to be sent.

    Yields:
        One `response` if the data fits into a chunk; else `header`, chunks of whole rows, `end`. Each
        stays below FRAME_LIMIT_BYTES.
    """
    size = answer.prepared.data_bytes
    if size <= CHUNK_BYTES:
        yield pb.EncodeStreamResponse(id=request_id, response=fill(header, answer))
        return
    set_timings(header, answer.timings)
    yield pb.EncodeStreamResponse(id=request_id, header=header)
    count = 0
    for chunk in _chunks(answer):
        count += 1
        yield pb.EncodeStreamResponse(id=request_id, chunk=chunk)
    yield pb.EncodeStreamResponse(id=request_id, end=pb.StreamEnd(chunks=count, data_bytes=size))


def _chunks(answer: Answer) -> Iterator[pb.Chunk]:
    """In the order of the bytes in each output's `data`, so an offset is the sum of what went before."""
    offset, output = 0, ""
    for part in answer.parts():
        if part.output != output or part.output == "pooled":  # each type of pooled vectors has data of its own
            offset, output = 0, part.output
        for place, data in cut(part.array, part.axes):
            yield pb.Chunk(
                output=OUTPUT_KINDS[part.output],
                item=part.item,
                layer=place.layer,
                head_begin=place.heads.start,
                head_end=place.heads.stop,
                row_begin=place.rows.start,
                row_end=place.rows.stop,
                offset_bytes=offset,
                data=data,
            )
            offset += len(data)


def cut(part: NDArray[Any], axes: Sequence[str]) -> Iterator[tuple[Place, bytes]]:
    """One item's tensor in pieces of at most CHUNK_BYTES, or one row where that is more: several heads, or rows of one."""
    layers, heads, rows, width = grid(axes, part.shape)
    whole = raw(part).reshape(layers, heads, rows, width)
    row_bytes = width * whole.itemsize
    step = max(1, CHUNK_BYTES // (rows * row_bytes))  # heads
    for layer, begin in itertools.product(range(layers), range(0, heads, step)):
        together = range(begin, min(heads, begin + step))
        if rows * row_bytes <= CHUNK_BYTES:
            yield Place(layer, together, range(rows)), whole[layer, begin : together.stop].tobytes()
            continue
        fitting = max(1, CHUNK_BYTES // row_bytes)
        for row in range(0, rows, fitting):
            some = range(row, min(rows, row + fitting))
            yield Place(layer, together, some), whole[layer, begin, row : some.stop].tobytes()
