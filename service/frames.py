"""Cutting an answer into frames that any client can receive. Frames are made one by one, as they are sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from headlight.pb import headlight_pb2 as pb
from headlight.runtime.values import Floats, ItemResult
from service.answers import fill, raw

FRAME_LIMIT_BYTES = 4 << 20  # what gRPC clients receive unless told otherwise
CHUNK_BYTES = 1 << 20  # data per chunk; larger ones are no faster and would hold up the stream's other answers
HEADER_LIMIT_BYTES = FRAME_LIMIT_BYTES - CHUNK_BYTES - 4096  # so that a header and a chunk's worth of data fit into one


class _Plane(NamedTuple):
    """Rows that one chunk may cut anywhere: of one item, layer and head."""

    output: pb.OutputKind
    item: int
    layer: int
    head: int
    rows: Floats  # [rows, elements of a row]


def frames(
    request_id: str, header: pb.EncodeResponse, results: Sequence[ItemResult], data_bytes: int
) -> Iterator[pb.EncodeStreamResponse]:
    """The frames that answer one request of a stream.

    Args:
        request_id: the caller's.
        header: the answer without data, timings included; at most HEADER_LIMIT_BYTES.
        results: in the order of the items.
        data_bytes: of all results together.

    Yields:
        One `response` where the data fits into a chunk; else `header`, chunks of whole rows, `end`. Each stays below
        FRAME_LIMIT_BYTES.
    """
    if data_bytes <= CHUNK_BYTES:
        fill(header, results)
        yield pb.EncodeStreamResponse(id=request_id, response=header)
        return
    yield pb.EncodeStreamResponse(id=request_id, header=header)
    count = 0
    for chunk in _chunks(header, results):
        count += 1
        yield pb.EncodeStreamResponse(id=request_id, chunk=chunk)
    yield pb.EncodeStreamResponse(id=request_id, end=pb.StreamEnd(chunks=count, data_bytes=data_bytes))


def _chunks(header: pb.EncodeResponse, results: Sequence[ItemResult]) -> Iterator[pb.Chunk]:
    """In the order of the bytes in each output's `data`, so an offset is the sum of what went before."""
    offset, output = 0, pb.OUTPUT_KIND_UNSPECIFIED
    for plane in _planes(header, results):
        if plane.output != output:
            offset, output = 0, plane.output
        row_bytes = plane.rows.shape[1] * plane.rows.itemsize
        step = max(1, CHUNK_BYTES // row_bytes)
        for begin in range(0, len(plane.rows), step):
            data = plane.rows[begin : begin + step].tobytes()
            yield pb.Chunk(
                output=plane.output,
                item=plane.item,
                layer=plane.layer,
                head=plane.head,
                row_begin=begin,
                row_end=begin + len(data) // row_bytes,
                offset_bytes=offset,
                data=data,
            )
            offset += len(data)


def _planes(header: pb.EncodeResponse, results: Sequence[ItemResult]) -> Iterator[_Plane]:
    if header.HasField("pooled"):
        pooled = np.stack([result.pooled for result in results if result.pooled is not None])
        yield _Plane(pb.OUTPUT_KIND_POOLED, 0, 0, 0, raw(pooled))
    if header.HasField("tokens"):
        for item, result in enumerate(results):
            if result.tokens is not None:
                yield _Plane(pb.OUTPUT_KIND_TOKENS, item, 0, 0, raw(result.tokens))
    if header.HasField("attention"):
        for item, result in enumerate(results):
            for layer, maps in zip(header.attention.layers, _parts(result.attention), strict=True):
                for head, rows in enumerate(maps):
                    yield _Plane(pb.OUTPUT_KIND_ATTENTION, item, layer, head, raw(rows))
    if header.HasField("hidden"):
        for item, result in enumerate(results):
            for layer, rows in zip(header.hidden.layers, _parts(result.hidden), strict=True):
                yield _Plane(pb.OUTPUT_KIND_HIDDEN, item, layer, 0, raw(rows))


def _parts(array: Floats | None) -> Sequence[Floats]:
    """The array along its first axis, the layers."""
    return () if array is None else list(array)
