"""Cutting an answer into frames that any client can receive. Frames are made one by one, as they are sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from headlight.pb import headlight_pb2 as pb
from headlight.wire.attention_codec import OUTPUT_KINDS, grid
from headlight_service.core.admission.admission_control import SMALL_ANSWER_BYTES
from headlight_service.core.requests.answer import Answer
from headlight_service.frontends.grpc.answer_encoding import fill, raw, set_timings

FRAME_LIMIT_BYTES = 4 << 20  # what gRPC clients receive unless told otherwise
CHUNK_BYTES = SMALL_ANSWER_BYTES  # data per chunk; larger ones are no faster and would hold up other answers
HEADER_LIMIT_BYTES = FRAME_LIMIT_BYTES - CHUNK_BYTES - 4096  # so that a header and a chunk's worth of data fit into one


def frames(request_id: str, header: pb.EncodeResponse, answer: Answer) -> Iterator[pb.EncodeStreamResponse]:
    """Yield the frames that answer one request of a stream.

    Args:
        request_id: the caller's.
        header: the answer without data and timings; at most HEADER_LIMIT_BYTES.
        answer: to be sent.

    Yields:
        One `response` if the data fits into a chunk, or of a dry run; else `header`, chunks of whole rows, `end`. Each
        stays below FRAME_LIMIT_BYTES.
    """
    size = answer.prepared.data_bytes
    if size <= CHUNK_BYTES or not answer.results:
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
        for layer, head, row, piece in _cut(part.array, part.axes):
            yield pb.Chunk(
                output=OUTPUT_KINDS[part.output],
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


def _cut(part: NDArray[Any], axes: Sequence[str]) -> Iterator[tuple[int, int, int, NDArray[Any]]]:
    """Cut one item's tensor into pieces of at most CHUNK_BYTES, or one row where that is more.

    Yields:
        Layer, first head and first row of a piece [heads, rows, width]: several heads, or rows of one.
    """
    layers, heads, rows, width = grid(axes, part.shape)
    whole = raw(part).reshape(layers, heads, rows, width)
    row_bytes = width * whole.itemsize
    most_rows = max(1, CHUNK_BYTES // row_bytes)
    most_heads = max(1, most_rows // rows)
    for place in itertools.product(range(layers), range(0, heads, most_heads), range(0, rows, most_rows)):
        layer, head, row = place
        yield *place, whole[layer, head : head + most_heads, row : row + most_rows]
