from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight.pb import headlight_pb2 as pb
from headlight.runtime.manifest import Architecture
from headlight.runtime.values import EncodeItem, Selection, Tokenized
from service import frames as module
from service.answers import FLOAT_BYTES, fill, header
from service.frames import CHUNK_BYTES, FRAME_LIMIT_BYTES, HEADER_LIMIT_BYTES, frames
from tests.service.fakes import DIM, HEADS, LAYERS, result

ARCHITECTURE = Architecture(positions="rope", layers=LAYERS, heads=HEADS, dim=DIM, vocab_size=100)
FIELDS = {
    pb.OUTPUT_KIND_POOLED: "pooled",
    pb.OUTPUT_KIND_TOKENS: "tokens",
    pb.OUTPUT_KIND_ATTENTION: "attention",
    pb.OUTPUT_KIND_HIDDEN: "hidden",
}


def answer(lengths: list[int], selection: Selection) -> tuple[pb.EncodeResponse, list[Any], int]:
    """Header, results and bytes of data."""
    items = [EncodeItem(np.full(n, 1 + n % 7, dtype=np.int64), selection) for n in lengths]
    inputs = [Tokenized(each.ids, len(each.ids), None) for each in items]
    sizes = [sum(selection.output_elements(n, ARCHITECTURE.dim, ARCHITECTURE.heads).values()) for n in lengths]
    response = header(pb.ModelRef(name="m"), inputs, selection, ARCHITECTURE)
    return response, [result(each) for each in items], FLOAT_BYTES * sum(sizes)


def reassemble(sent: list[pb.EncodeStreamResponse]) -> pb.EncodeResponse:
    """As a client would, blindly; checks each chunk's meaning on the way."""
    whole, chunks, end = sent[0].header, [frame.chunk for frame in sent[1:-1]], sent[-1].end
    assert (end.chunks, end.data_bytes) == (len(chunks), sum(len(chunk.data) for chunk in chunks))
    buffers = {kind: bytearray() for kind in FIELDS}
    for chunk in chunks:
        assert chunk.offset_bytes == len(buffers[chunk.output]), "in order, without gaps"
        assert chunk.row_end > chunk.row_begin
        assert len(chunk.data) % (chunk.row_end - chunk.row_begin) == 0
        buffers[chunk.output] += chunk.data
    for kind, name in FIELDS.items():
        if whole.HasField(name):
            getattr(whole, name).data = bytes(buffers[kind])
    return whole


selections = st.builds(
    Selection,
    pooled=st.booleans(),
    tokens=st.booleans(),
    attention=st.lists(st.integers(0, LAYERS - 1), unique=True).map(tuple),
    hidden=st.lists(st.integers(0, LAYERS), unique=True).map(tuple),
)


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), selections, st.integers(1, 3000))
def test_frames_reassemble_exactly(lengths: list[int], selection: Selection, chunk_bytes: int) -> None:
    response, results, size = answer(lengths, selection)
    expected = pb.EncodeResponse()
    expected.CopyFrom(response)
    fill(expected, results)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_BYTES", chunk_bytes)
        sent = list(frames("id", response, results, size))
    assert {frame.id for frame in sent} == {"id"}
    if size <= chunk_bytes:
        assert [frame.response for frame in sent] == [expected]
        return
    longest_row = FLOAT_BYTES * max(DIM, *lengths)
    assert all(len(frame.chunk.data) <= max(chunk_bytes, longest_row) for frame in sent)
    assert reassemble(sent) == expected


def test_chunks_say_what_they_hold() -> None:
    response, results, size = answer([300, 2], Selection(attention=(2, 0), hidden=(3,)))
    sent = list(frames("id", response, results, size))
    attention = results[0].attention
    for frame in sent[1:-1]:
        chunk = frame.chunk
        if chunk.output == pb.OUTPUT_KIND_ATTENTION and chunk.item == 0:
            layer = list(response.attention.layers).index(chunk.layer)
            rows = attention[layer, chunk.head, chunk.row_begin : chunk.row_end]
            assert chunk.data == rows.tobytes()
    labels = {(f.chunk.item, f.chunk.layer, f.chunk.head) for f in sent[1:-1] if f.chunk.output == 3}
    assert labels == {(item, layer, head) for item in (0, 1) for layer in (0, 2) for head in range(HEADS)}


def test_every_frame_of_a_large_answer_is_one_that_any_client_receives() -> None:
    response, results, size = answer([1500], Selection(tokens=True, attention=(0,), hidden=(0,)))
    assert size > 16 << 20
    sent = list(frames("id", response, results, size))
    assert max(frame.ByteSize() for frame in sent) < FRAME_LIMIT_BYTES
    assert reassemble(sent).attention.data == results[0].attention.tobytes()


def test_the_largest_header_and_a_chunk_of_data_fit_into_one_frame() -> None:
    assert HEADER_LIMIT_BYTES + CHUNK_BYTES < FRAME_LIMIT_BYTES


def test_frames_are_made_as_they_are_taken() -> None:
    response, results, size = answer([1000], Selection(pooled=False, attention=(0, 1, 2)))
    taken = frames("id", response, results, size)
    assert next(taken).WhichOneof("frame") == "header"
    results.clear()  # what is not yet cut is not yet copied
    assert [frame.WhichOneof("frame") for frame in taken] == ["end"]
