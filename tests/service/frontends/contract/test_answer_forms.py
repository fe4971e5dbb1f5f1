from __future__ import annotations

import functools
import itertools
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.outputs.contract import numbers_of
from headlight.outputs.hidden import states
from headlight.outputs.maps.resolved_spec import resolve_attention, whole
from headlight.outputs.vector_forms import VectorForm
from headlight.pb import headlight_pb2 as pb
from headlight.results import ModelRef
from headlight.runtime.encode_items import EncodeItem, Selection, output_bytes
from headlight.runtime.values import Tokenized
from headlight.spec import AttentionSpec, Number, Reduction
from headlight.wire.reassembly import Announced, Assembly, whole_answer
from headlight_service.core.requests.answer import Answer, Prepared, Timings
from headlight_service.frontends.contract import answer_forms as module
from headlight_service.frontends.contract.answer_encoding import fill, header
from headlight_service.frontends.contract.answer_forms import (
    FRAME_LIMIT_BYTES,
    frames,
)
from tests.service.fakes import ARCHITECTURE, DIM, HEADS, LAYERS, info, result

REF = ModelRef("m", "1", "ab" * 32, "cpu", "fp32")
TIMINGS = Timings(1, 2, 3, 4)
FIELDS: dict[int, str] = {number: name for name, number in numbers_of("OutputKind").items()}


def prepared(inputs: list[Tokenized], selection: Selection, *, with_info: bool = False) -> Prepared:
    """Return a request of these inputs in the state after tokenization."""
    items = [EncodeItem(each.ids, selection) for each in inputs]
    sizes = output_bytes(items, ARCHITECTURE)
    tokens = sum(len(each.ids) for each in inputs)
    return Prepared(
        inputs,
        items,
        selection,
        ARCHITECTURE,
        with_info,
        "interactive",
        sizes,
        sum(sizes.values()),
        tokens,
        queued_tokens=tokens,
        held_bytes=sum(sizes.values()),
    )


def answer(lengths: list[int], selection: Selection) -> tuple[pb.EncodeResponse, Answer]:
    """Return header and answer."""
    ids = [np.full(n, 1 + n % 7, dtype=np.int64) for n in lengths]
    ready = prepared([Tokenized(each, len(each), None) for each in ids], selection)
    assert ready.data_bytes == sum(
        sum(each.output_bytes(ARCHITECTURE).values()) for each in ready.items
    )
    return header(REF, ready), Answer(ready, [result(each) for each in ready.items], TIMINGS)


def reassemble(sent: list[pb.EncodeStreamResponse]) -> pb.EncodeResponse:
    """Reassemble as a client would, by offsets alone; check each chunk's meaning on the way."""
    whole, chunks, end = sent[0].header, [frame.chunk for frame in sent[1:-1]], sent[-1].end
    assert (end.chunks, end.data_bytes) == (len(chunks), sum(len(chunk.data) for chunk in chunks))
    # Pooled vectors in each type are an output of their own; the parts of other outputs lie end to
    # end in one.
    buffers: dict[tuple[int, int], bytearray] = {}
    for chunk in chunks:
        own = buffers.setdefault(
            (chunk.output, chunk.item * (chunk.output == pb.OUTPUT_KIND_POOLED)), bytearray()
        )
        assert chunk.offset_bytes == len(own), "in order, without gaps"
        assert chunk.row_end > chunk.row_begin
        assert len(chunk.data) % (chunk.row_end - chunk.row_begin) == 0
        own += chunk.data
    for (kind, at), data in buffers.items():
        tensor = whole.pooled[at] if kind == pb.OUTPUT_KIND_POOLED else getattr(whole, FIELDS[kind])
        tensor.data = bytes(data)
    return whole


SPECS = st.builds(
    AttentionSpec,
    layers=st.lists(st.integers(0, LAYERS - 1), unique=True).map(tuple),
    heads=st.sampled_from([(), (1,)]),
    reduce=st.sampled_from(
        [(), ("head_mean",), ("layer_mean",), ("pooling_weights",), ("statistics",)]
    ),
)
OTHER_FORMS = st.sampled_from(
    [
        AttentionSpec(top_k=2),
        AttentionSpec(dtype="uint8", reduce=("layer_mean", "head_mean", "pooling_weights")),
        AttentionSpec(dtype="uint8", reduce=("pooling_weights",)),
        AttentionSpec(dtype="uint8", reduce=("layer_mean", "pooling_weights")),
        AttentionSpec(dtype="uint8", reduce=("head_max", "pooling_weights")),
        AttentionSpec(dtype="uint8", reduce=("pooling_weights",), pairs=((0, 1), (2, 0), (2, 1))),
        AttentionSpec(pairs=((0, 1), (2, 0), (2, 1)), dtype="float16"),
        AttentionSpec(top_k=3, dtype="uint8", heads=(1, 0)),
    ]
)
RANGES = np.array([[0, 0, 0, 0], [1, 1000, 10**5, 10**6]], dtype=np.float32)
VECTORS = [
    VectorForm(),
    VectorForm(3, False, ("float16",)),
    VectorForm(4, True, ("int8", "float32", "float16"), RANGES),
]
selections = st.builds(
    Selection,
    pooled=st.just(False) | st.sampled_from(VECTORS),
    tokens=st.booleans(),
    attention=st.none()
    | (SPECS | OTHER_FORMS).map(lambda spec: resolve_attention(spec, ARCHITECTURE, "mean")),
    hidden=st.none() | st.lists(st.integers(0, LAYERS), unique=True, min_size=1).map(states),
)


@pytest.mark.parametrize("with_info", [False, True])
def test_input_info_is_in_the_order_of_the_inputs(with_info: bool) -> None:
    # Tokens, those before truncation, of the prompt.
    told = [(3, 3, 0), (2, 2, 1), (3, 9, 0), (3, 3, 0), (40, 40, 2)]
    inputs = [
        Tokenized(np.ones(length, dtype=np.int64), before, info([5] * length), prompt_length=prompt)
        for length, before, prompt in told
    ]
    response = header(REF, prepared(inputs, Selection(), with_info=with_info))
    assert [
        (each.token_count, each.original_token_count, each.prompt_token_count, each.truncated)
        for each in response.items
    ] == [(length, before, prompt, before > length) for length, before, prompt in told]
    assert [len(each.tokens.ids) for each in response.items] == [
        length * with_info for length, _, _ in told
    ]
    assert (
        response.model.name,
        response.usage.token_count,
        response.usage.original_token_count,
    ) == ("m", 51, 57)
    assert response.usage.prompt_token_count == 3


@given(st.lists(st.integers(1, 40), min_size=1, max_size=5), selections, st.integers(1, 3000))
def test_frames_reassemble_exactly(
    lengths: list[int], selection: Selection, chunk_bytes: int
) -> None:
    response, answered = answer(lengths, selection)
    expected = pb.EncodeResponse()
    expected.CopyFrom(response)
    fill(expected, answered)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK_BYTES", chunk_bytes)
        sent = list(frames("id", response, answered))
    assert {frame.id for frame in sent} == {"id"}
    assert sent[0].WhichOneof("frame") in ("response", "header")
    told = sent[0].response.timings if sent[0].HasField("response") else sent[0].header.timings
    assert (told.tokenize_ns, told.queue_ns, told.infer_ns, told.total_ns) == TIMINGS
    if answered.prepared.data_bytes <= chunk_bytes:
        assert [frame.response for frame in sent] == [expected]
        return
    longest_row = 4 * max(DIM, 7, *lengths)
    assert all(len(frame.chunk.data) <= max(chunk_bytes, longest_row) for frame in sent)
    assert reassemble(sent) == expected


def test_chunks_describe_their_contents() -> None:
    response, answered = answer(
        [300, 2], Selection(attention=whole((2, 0), HEADS), hidden=states((3,)))
    )
    sent = list(frames("id", response, answered))
    attention = answered.results[0].attention
    assert attention is not None
    for frame in sent[1:-1]:
        chunk = frame.chunk
        if chunk.output == pb.OUTPUT_KIND_ATTENTION and chunk.item == 0:
            rows = attention[
                chunk.layer, chunk.head_begin : chunk.head_end, chunk.row_begin : chunk.row_end
            ]
            assert chunk.data == rows.tobytes()
    chunks = [frame.chunk for frame in sent[1:-1] if frame.chunk.output == pb.OUTPUT_KIND_ATTENTION]
    labels = {
        (chunk.item, chunk.layer, head)
        for chunk in chunks
        for head in range(chunk.head_begin, chunk.head_end)
    }
    assert labels == {
        (item, layer, head) for item in (0, 1) for layer in (0, 1) for head in range(HEADS)
    }
    assert len([chunk for chunk in chunks if chunk.item == 1]) == 2, "small heads travel together"


def test_every_frame_fits_the_default_message_limit() -> None:
    response, answered = answer(
        [1500], Selection(tokens=True, attention=whole((0,), HEADS), hidden=states((0,)))
    )
    attention = answered.results[0].attention
    assert attention is not None
    assert answered.prepared.data_bytes > 16 << 20
    sent = list(frames("id", response, answered))
    assert max(frame.ByteSize() for frame in sent) < FRAME_LIMIT_BYTES
    assert reassemble(sent).attention.data == attention.tobytes()


def test_frames_are_created_lazily() -> None:
    response, answered = answer([1000], Selection(pooled=False, attention=whole((0, 1, 2), HEADS)))
    taken = frames("id", response, answered)
    assert next(taken).WhichOneof("frame") == "header"
    answered.results.clear()  # chunks not yet created are not copied
    assert [frame.WhichOneof("frame") for frame in taken] == ["end"]


HEADS_AND_LAYERS: list[tuple[Reduction, ...]] = [
    (),
    ("head_mean",),
    ("layer_mean",),
    ("layer_mean", "head_mean"),
]
QUERIES: list[tuple[Reduction, ...]] = [(), ("pooling_weights",)]
# Every combination of axes that an answer can have, in each type.
FORMS = [
    *(
        AttentionSpec(reduce=(*reduced, *rows), top_k=top_k, dtype=dtype, pairs=pairs)
        for reduced, pairs in (
            *((each, ()) for each in HEADS_AND_LAYERS),
            ((), ((0, 1), (2, 0), (2, 1))),
        )
        for rows, top_k, dtype in itertools.product(QUERIES, (None, 2), get_args(Number))
    ),
    AttentionSpec(reduce=("statistics",)),
]


def announced(prepared: Prepared, response: pb.EncodeResponse) -> Announced:
    [(_, layouts)] = prepared.layouts()
    return Announced(layouts, {})


@pytest.mark.parametrize("chunk_bytes", [1, 30, 100])
def test_the_client_reassembles_any_form_of_attention(
    monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    """In small chunks, so that every form is chunked, as only long texts would be otherwise."""
    monkeypatch.setattr(module, "CHUNK_BYTES", chunk_bytes)
    for spec in FORMS:
        selection = Selection(pooled=False, attention=resolve_attention(spec, ARCHITECTURE, "mean"))
        response, answered = answer([9, 5], selection)
        expected = pb.EncodeResponse()
        expected.CopyFrom(response)
        fill(expected, answered)
        expect = functools.partial(announced, answered.prepared)
        assembly = Assembly(expect)
        *_, found = map(assembly.receive, frames("id", response, answered))
        assert found is not None
        assert {name: each.tolist() for name, each in found.data.items()} == {
            name: each.tolist() for name, each in whole_answer(expected, expect).data.items()
        }, spec
