from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.errors import EngineError
from headlight.pb import headlight_pb2 as pb
from headlight.wire.client_codec import from_model
from headlight.wire.reassembly import Answer, Assembly, Coverage, whole_answer
from tests.headlight.expecting import expecting
from tests.headlight.fake_model import REF, answer, frames_of
from tests.headlight.fake_server import FakeServicer, default_limits

MEANING = (
    "offset_bytes",
    "item",
    "layer",
    "head_begin",
    "head_end",
    "row_begin",
    "row_end",
    "output",
)
Frames = list[pb.EncodeStreamResponse]
TWO = ["one two", "three"]
MODEL = from_model(FakeServicer(default_limits()).GetModel(pb.GetModelRequest(), None))
EVERYTHING = pb.Outputs(
    pooled=pb.PooledOutput(),
    tokens=pb.TokensOutput(),
    attention=pb.AttentionOutput(layers=[2, 0]),
    hidden=pb.HiddenOutput(layers=[1, 3]),
)


def response_to(texts: list[str], outputs: pb.Outputs = EVERYTHING) -> pb.EncodeResponse:
    request = pb.EncodeRequest(inputs=[pb.Input(text=text) for text in texts], outputs=outputs)
    return answer(request, max_length=32)


def assemble(frames: Frames, texts: list[str], max_bytes: int = 0) -> Answer:
    assembly = Assembly(expecting(MODEL, EVERYTHING, texts), max_bytes)
    for frame in frames:
        if (complete := assembly.receive(frame)) is not None:
            return complete
    raise AssertionError("no end")


def assert_same(left: Answer, right: Answer) -> None:
    assert left.data.keys() == right.data.keys()
    assert left.announced.layouts == right.announced.layouts
    for output in left.data:
        np.testing.assert_array_equal(left.data[output], right.data[output])
        assert left.data[output].flags.writeable


@given(
    st.lists(st.integers(0, 9).map("w ".__mul__), min_size=1, max_size=4),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_chunks_in_any_order_make_the_whole_answer(
    texts: list[str], rows: int, shuffle: random.Random
) -> None:
    response = response_to(texts)
    header, *chunks, end = frames_of("a", response, rows)
    shuffle.shuffle(chunks)
    whole = whole_answer(response, expecting(MODEL, EVERYTHING, texts))
    assert_same(assemble([header, *chunks, end], texts), whole)


@given(st.data())
def test_a_lost_repeated_or_moved_chunk_is_detected(data: st.DataObject) -> None:
    header, *chunks, end = frames_of("a", response_to(TWO))
    at = data.draw(st.integers(0, len(chunks) - 1))
    field = data.draw(st.sampled_from(["lost", "doubled", *MEANING]))
    if field == "lost":
        del chunks[at]
    elif field == "doubled":
        chunks.insert(at, chunks[at])
    else:
        chunk = chunks[at].chunk
        value = data.draw(
            st.integers(0, 9 if field != "offset_bytes" else 4000).filter(
                lambda new: new != getattr(chunk, field)
            )
        )
        setattr(chunk, field, value)
    with pytest.raises(EngineError, match="malformed"):
        assemble([header, *chunks, end], TWO)


def header(change: Callable[[pb.EncodeResponse], object]) -> Callable[[Frames], object]:
    return lambda frames: change(frames[0].header)


BROKEN: dict[str, Callable[[Frames], object]] = {
    "no header": lambda frames: frames.pop(0),
    "two headers": lambda frames: frames.insert(0, frames[0]),
    "no chunks": lambda frames: frames.__delitem__(slice(1, -1)),
    "empty frame": lambda frames: frames.insert(0, pb.EncodeStreamResponse(id="a")),
    "wrong count of chunks": lambda frames: frames[-1].end.ClearField("chunks"),
    "wrong count of bytes": lambda frames: frames[-1].end.ClearField("data_bytes"),
    "an input without an entry": header(lambda told: told.items.pop()),
    "three axes": header(lambda told: told.pooled[0].shape.append(1)),
    "no axes": header(lambda told: told.pooled[0].ClearField("shape")),
    "no type": header(lambda told: told.pooled[0].ClearField("dtype")),
    "too few offsets": header(lambda told: told.tokens.offsets.pop()),
    "falling offsets": header(lambda told: told.tokens.offsets.reverse()),
    "tokens with layers": header(lambda told: told.tokens.layers.append(1)),
    "hidden without layers": header(lambda told: told.hidden.ClearField("layers")),
    "a layer too many": header(lambda told: told.attention.layers.append(1)),
    "an input without a shape": header(lambda told: told.attention.shapes.pop()),
    "an axis too many": header(lambda told: told.hidden.shapes[0].sizes.append(1)),
    "axes the wrong way": header(lambda told: told.tokens.shapes[0].sizes.reverse()),
    "other axes": header(lambda told: told.attention_map.axes.reverse()),
    "a head too few": header(lambda told: told.attention_map.heads.pop()),
    "a key too few": header(lambda told: told.attention_map.places.add().keys.tokens.append(0)),
    "an unknown type": header(lambda told: setattr(told.attention, "dtype", 9)),
    "no tokens": header(lambda told: setattr(told.items[0], "token_count", 0)),
    "other tokens": header(lambda told: setattr(told.items[0], "token_count", 7)),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_frames_that_break_the_contract_are_refused(change: Callable[[Frames], object]) -> None:
    frames = frames_of("a", response_to(TWO))
    change(frames)
    with pytest.raises(EngineError, match="malformed"):
        assemble(frames, TWO)


def test_memory_is_not_reserved_beyond_the_limit_of_the_server() -> None:
    header = frames_of("a", response_to(["one"]))[0]
    with pytest.raises(EngineError, match=r"limit of 100\b"):
        assemble([header], ["one"], max_bytes=100)


def test_an_unchunked_answer_is_validated() -> None:
    response, expect = response_to(["one"]), expecting(MODEL, EVERYTHING, ["one"])
    response.pooled[0].data += b"1234"
    with pytest.raises(EngineError, match="announced"):
        whole_answer(response, expect)
    response.ClearField("tokens")
    with pytest.raises(EngineError, match=r"holds .*requested was .*tokens"):
        whole_answer(response, expect)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_coverage_is_complete_once_every_piece_has_arrived(
    sizes: list[int], shuffle: random.Random
) -> None:
    edges = [0, *np.cumsum(sizes).tolist()]
    pieces = list(itertools.pairwise(edges))
    shuffle.shuffle(pieces)
    coverage = Coverage()
    for begin, end in pieces:
        assert not coverage.is_whole(edges[-1])
        coverage.add(begin, end)
    assert coverage.is_whole(edges[-1])
    with pytest.raises(EngineError, match="overlap"):
        coverage.add(*shuffle.choice(pieces))


@pytest.mark.parametrize("tokens", [[], [3]])
def test_units_of_a_reduced_axis_are_validated(tokens: list[int]) -> None:
    """The shape of the tensor does not reveal them."""
    info = pb.TokenInfo(
        ids=[1] * 3, starts=[0] * 3, ends=[0] * 3, special=[False] * 3, segments=[0] * 3
    )
    attention = pb.RaggedTensor(
        dtype=pb.DATA_TYPE_FLOAT32, layers=[0], offsets=[0, 3], data=bytes(12)
    )
    attention.shapes.add(sizes=[1, 1, 3])
    told = pb.AttentionMap(axes=["layer", "head", "key"], heads=[0])
    told.places.add(queries=pb.Units(tokens=tokens))
    response = pb.EncodeResponse(
        model=REF,
        items=[pb.Item(token_count=3, original_token_count=3, tokens=info)],
        attention=attention,
        attention_map=told,
    )
    output = pb.AttentionOutput(layers=[0], heads=[0], unit=pb.UNIT_WORD)
    output.reduce.append(pb.REDUCTION_POOLED_ROW)
    outputs = pb.Outputs(attention=output, token_info=pb.TokenInfoOutput())
    cls = dataclasses.replace(MODEL, pooling="cls")
    with pytest.raises(EngineError, match=r"malformed.*places\.queries names"):
        whole_answer(response, expecting(cls, outputs, [[1] * 3]))
