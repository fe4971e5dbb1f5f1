"""Cutting an answer into frames that any client can receive. Frames are made one by one, as they are sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from headlight.pb import headlight_pb2 as pb
from headlight.runtime.encode_items import ItemResult
from headlight.runtime.vectors.vector_forms import AS_THEY_ARE, Vector
from headlight.wire.attention_codec import OUTPUT_KINDS, axes_of, grid
from headlight_service.frontends.grpc.answer_encoding import RESULTS, fill, pooled_tensors, raw

FRAME_LIMIT_BYTES = 4 << 20  # what gRPC clients receive unless told otherwise
CHUNK_BYTES = 1 << 20  # data per chunk; larger ones are no faster and would hold up the stream's other answers
HEADER_LIMIT_BYTES = FRAME_LIMIT_BYTES - CHUNK_BYTES - 4096  # so that a header and a chunk's worth of data fit into one


class Place(NamedTuple):
    """Where a piece of a tensor belongs: see pb.Chunk."""

    layer: int
    heads: range
    rows: range


def frames(
    request_id: str,
    header: pb.EncodeResponse,
    results: Sequence[ItemResult],
    data_bytes: int,
    vector: Vector = AS_THEY_ARE,
) -> Iterator[pb.EncodeStreamResponse]:
    """The frames that answer one request of a stream.

    Args:
        request_id: the caller's.
        header: the answer without data, timings included; at most HEADER_LIMIT_BYTES.
        results: in the order of the items.
        data_bytes: of all results together.
        vector: the form in which pooled vectors were asked for.

    Yields:
        One `response` where the data fits into a chunk; else `header`, chunks of whole rows, `end`. Each stays below
        FRAME_LIMIT_BYTES.
    """
    if data_bytes <= CHUNK_BYTES:
        fill(header, results, vector)
        yield pb.EncodeStreamResponse(id=request_id, response=header)
        return
    yield pb.EncodeStreamResponse(id=request_id, header=header)
    count = 0
    for chunk in _chunks(header, results, vector):
        count += 1
        yield pb.EncodeStreamResponse(id=request_id, chunk=chunk)
    yield pb.EncodeStreamResponse(id=request_id, end=pb.StreamEnd(chunks=count, data_bytes=data_bytes))


def _chunks(header: pb.EncodeResponse, results: Sequence[ItemResult], vector: Vector) -> Iterator[pb.Chunk]:
    """In the order of the bytes in each output's `data`, so an offset is the sum of what went before."""
    for at, array in enumerate(pooled_tensors(header, results, vector)):
        yield from _pieces("pooled", at, array, axes_of("pooled", header), 0)
    for name, attribute in RESULTS.items():
        if not header.HasField(name):
            continue
        offset, axes = 0, axes_of(name, header)
        for item, result in enumerate(results):
            part = getattr(result, attribute)
            yield from _pieces(name, item, part, axes, offset)
            offset += part.nbytes


def _pieces(name: str, item: int, part: NDArray[Any], axes: Sequence[str], offset: int) -> Iterator[pb.Chunk]:
    """The chunks of one tensor, whose first byte has an offset."""
    for place, data in cut(part, axes):
        yield pb.Chunk(
            output=OUTPUT_KINDS[name],
            item=item,
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
