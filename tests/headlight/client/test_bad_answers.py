"""Answers of a hostile or broken server: each is a BadAnswer for both clients, unary and streamed, and never data."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any, TypeAlias

import grpc
import numpy as np
import pytest

from headlight import AsyncClient, AttentionSpec, BadAnswer, Client, PooledSpec, TokensSpec
from headlight.errors import EngineError, MixedWeights
from headlight.pb import headlight_pb2 as pb
from tests.headlight.fake_model import DIM, ragged
from tests.headlight.fake_server import FakeServicer, default_limits

SECONDS = 60  # of a client's timeout, which no test comes near
TEXT = "one two three"
UNIT = PooledSpec(normalize=True)
Method: TypeAlias = "Callable[[Any], Any]"
Ask: TypeAlias = "Callable[[Method], Any]"
Answer: TypeAlias = pb.EncodeResponse

METHODS: dict[str, Method] = {
    "encode": lambda client: client.encode([TEXT, "four"]),
    "unit": lambda client: client.encode([TEXT, "four"], UNIT),
    "bytes": lambda client: client.encode_with_info([TEXT], PooledSpec(dtypes=("float16", "ubinary"))),
    "ids": lambda client: client.encode([[1, 5, 9]]),
    "cut": lambda client: client.encode(["word " * 50], truncate="end"),
    "tokens": lambda client: client.encode_tokens([TEXT, "four"]),
    "token_vectors": lambda client: client.token_vectors([TEXT], TokensSpec(skip_special=True)),
    "attend": lambda client: client.attend(TEXT),
    "attention": lambda client: client.attention([TEXT], AttentionSpec(layers=(1, -1))),
    "rows": lambda client: client.attention([TEXT], AttentionSpec(queries=(1, -1))),
    "top": lambda client: client.attention([TEXT], AttentionSpec(top_k=2)),
    "content": lambda client: client.attention([TEXT], AttentionSpec(drop_special=True)),
    "statistics": lambda client: client.attention([TEXT], AttentionSpec(reduce=("statistics",))),
    "hidden": lambda client: client.hidden(TEXT, [0, -1]),
    "pieces": lambda client: client.attention_pieces(TEXT, AttentionSpec()),
    "tokenize": lambda client: client.tokenize([TEXT]),
    "tokenize_ids": lambda client: client.tokenize([[1, 5, 9]]),
    "occlusion": lambda client: client.occlusion(TEXT),
    "attention_bytes": lambda client: client.attention_bytes(TEXT, AttentionSpec()),
    "model": lambda client: client.model(),
}


async def awaited(target: str, method: Method) -> Any:
    async with AsyncClient(target, model="fake", timeout=SECONDS) as client:
        found = method(client)
        return [piece async for piece in found] if inspect.isasyncgen(found) else await found


@pytest.fixture(params=["blocking", "asyncio"])
def ask(request: pytest.FixtureRequest, target: str) -> Ask:
    """Ask a fresh client of either kind, which expects the model "fake"."""

    def blocking(method: Method) -> Any:
        with Client(target, model="fake", timeout=SECONDS) as client:
            found = method(client)
            return list(found) if inspect.isgenerator(found) else found

    return blocking if request.param == "blocking" else lambda method: asyncio.run(awaited(target, method))


@pytest.mark.parametrize("method", METHODS)
def test_honest_answers_pass(ask: Ask, method: str) -> None:
    assert ask(METHODS[method]) is not None


def with_number(output: str, at: int, number: float, dtype: str = "<f4") -> Callable[[Answer], object]:
    """Put one number into an output, in the place of another."""

    def change(response: Answer) -> None:
        tensor = response.pooled[0] if output == "pooled" else getattr(response, output)
        numbers = np.frombuffer(tensor.data, dtype).copy()
        numbers[at] = number
        tensor.data = numbers.tobytes()

    return change


def scaled(output: str, factor: float) -> Callable[[Answer], object]:
    def change(response: Answer) -> None:
        tensor = response.pooled[0] if output == "pooled" else getattr(response, output)
        tensor.data = (np.frombuffer(tensor.data, "<f4") * np.float32(factor)).tobytes()

    return change


def wider(response: Answer) -> None:
    tensor = response.pooled[0]
    tensor.shape[1] += 1
    tensor.data += bytes(4 * tensor.shape[0])


def narrower(response: Answer) -> None:
    tensor = response.pooled[0]
    tensor.shape[1] //= 2
    tensor.data = tensor.data[: len(tensor.data) // 2]


def with_rows(output: str, width: int) -> Callable[[Answer], object]:
    """Vectors of another width, well formed in themselves."""

    def change(response: Answer) -> None:
        tensor = getattr(response, output)
        for extents in tensor.shapes:
            extents.sizes[-1] = width
        sizes = [int(np.prod(extents.sizes)) for extents in tensor.shapes]
        del tensor.offsets[:]
        tensor.offsets.extend([0, *itertools.accumulate(sizes)])
        tensor.data = bytes(4 * sum(sizes))

    return change


def with_tokens(count: int) -> Callable[[Answer], object]:
    def change(response: Answer) -> None:
        response.items[0].token_count = response.items[0].original_token_count = count

    return change


def one_item_more(response: Answer) -> None:
    response.items.add().CopyFrom(response.items[0])
    response.pooled[0].shape[0] += 1
    response.pooled[0].data += bytes(4 * DIM)


def another_output(response: Answer) -> None:
    response.hidden.CopyFrom(pb.RaggedTensor(dtype=pb.DATA_TYPE_FLOAT32, layers=[0], offsets=[0], data=b"", shapes=[]))
    for item in response.items:
        response.hidden.shapes.add(sizes=(1, item.token_count, DIM))
        response.hidden.offsets.append(response.hidden.offsets[-1] + item.token_count * DIM)
    response.hidden.data = bytes(4 * response.hidden.offsets[-1])


def of_another(response: Any) -> None:
    response.model.name = "another"


def other_layers(response: Answer) -> None:
    response.attention.layers[:] = [0, 1]


def other_keys(response: Answer) -> None:
    count = response.items[0].token_count
    places = response.attention_map.places.add()
    places.keys.tokens.extend(range(count))
    places.keys.starts.extend(range(count))


def units_behind_the_first(response: Answer) -> None:
    count = response.items[0].token_count
    response.attention_map.places.add(keys=pb.Units(tokens=range(count), starts=range(1, count + 1)))


def half_precision(response: Answer) -> None:
    for output in ("tokens", "hidden", "attention"):
        if response.HasField(output):
            tensor = getattr(response, output)
            tensor.data = np.frombuffer(tensor.data, "<f4").astype("<f2").tobytes()
            tensor.dtype = pb.DATA_TYPE_FLOAT16


def cut_unasked(response: Answer) -> None:
    response.items[0].original_token_count += 5
    response.items[0].truncated = True


def with_token(field: str, at: int, value: Any) -> Callable[[Answer], object]:
    def change(response: Answer) -> None:
        getattr(response.items[0].tokens, field)[at] = value

    return change


BAD = [
    ("encode", wider, rf"{DIM + 1} numbers, and {DIM}"),
    ("encode", narrower, rf"{DIM // 2} numbers, and {DIM}"),
    ("encode", one_item_more, "3 entries for 2 inputs"),
    ("encode", lambda response: response.items.pop(), "1 entries for 2 inputs"),
    ("encode", with_number("pooled", 9, np.nan), "NaN or infinite"),
    ("encode", with_number("pooled", 9, -np.inf), "NaN or infinite"),
    ("bytes", with_number("pooled", 3, np.nan, "<f2"), "NaN or infinite"),
    ("encode", of_another, "'another', and 'fake'"),
    ("encode", another_output, "hidden"),
    ("encode", with_tokens(33), r"token_count is 33, and 1 \.\. 32"),
    ("encode", with_tokens(0), "token_count is 0"),
    ("ids", with_tokens(4), r"token_count is 4, and 3 \.\. 3"),
    ("encode", cut_unasked, "nothing was to be cut off"),
    ("cut", lambda response: response.items[0].ClearField("truncated"), "to be cut off"),
    ("unit", scaled("pooled", 1.01), "unit length"),
    ("unit", with_number("pooled", 0, np.nan), "NaN or infinite"),
    ("tokens", with_rows("tokens", DIM + 1), rf"{DIM + 1} numbers, and {DIM}"),
    ("tokens", with_number("tokens", 5, np.nan), "NaN or infinite"),
    ("tokens", of_another, "'another', and 'fake'"),
    ("tokens", another_output, "hidden"),
    ("tokens", half_precision, "type float16"),
    ("token_vectors", lambda response: response.kept_tokens[0].indices.reverse(), "another order"),
    ("attend", scaled("attention", 1.002), r"sums to 1\.002"),
    ("attend", scaled("attention", 0.998), r"sums to 0\.998"),
    ("attend", scaled("attention", -1), "a weight of -"),
    ("attend", with_number("attention", 7, np.nan), "NaN or infinite"),
    ("attend", with_number("attention", 7, np.inf), "NaN or infinite"),
    ("attend", half_precision, "type float16"),
    ("attend", of_another, "'another', and 'fake'"),
    ("attend", with_token("ids", 1, 5000), "the model knows 1000"),
    ("attend", with_token("ends", 1, 500), "leave the text"),
    ("attend", with_token("segments", 1, 1), "1 texts were sent"),
    ("attention", other_layers, r"\[0, 1\], and \[1, 2\]"),
    ("attention", scaled("attention", 1.002), r"sums to 1\.002"),
    ("attention", other_keys, "each of all"),
    ("rows", lambda response: response.attention_map.places[0].queries.tokens.reverse(), "queries is"),
    ("top", scaled("attention", 1.5), r"sums to .* at most 1"),
    ("top", with_number("attention_indices", 0, 40, "<u2"), "beyond its 5 keys"),
    ("attend", lambda response: response.items[0].tokens.CopyFrom(pb.TokenInfo()), "0 tokens described of"),
    ("content", units_behind_the_first, r"units that begin at \[1, 2"),
    ("statistics", with_number("attention", 0, np.nan), "NaN or infinite"),
    ("statistics", lambda response: response.attention_map.statistics.reverse(), "statistics"),
    ("hidden", with_rows("hidden", DIM * 2), rf"{DIM * 2} numbers, and {DIM}"),
    ("hidden", with_number("hidden", 0, np.inf), "NaN or infinite"),
    ("hidden", lambda response: response.hidden.layers.reverse(), r"\[3, 0\], and \[0, 3\]"),
    ("pieces", scaled("attention", 1.002), r"sums to 1\.002"),
    ("pieces", with_number("attention", 7, np.nan), "NaN or infinite"),
    ("pieces", of_another, "'another', and 'fake'"),
    ("attention_bytes", of_another, "'another', and 'fake'"),
]


@pytest.mark.parametrize(("method", "change", "says"), BAD)
def test_an_answer_that_does_not_fit_the_request_is_a_bad_answer(
    ask: Ask, servicer: FakeServicer, method: str, change: Callable[[Answer], object], says: str
) -> None:
    servicer.change_answer = change
    with pytest.raises(BadAnswer, match=says) as caught:
        ask(METHODS[method])
    assert "of a compatible version?" in str(caught.value)
    assert len(servicer.encoded) == 1, "nothing is repeated"


BAD_TOKENS: list[tuple[str, Callable[[pb.TokenizeResponse], object], str]] = [
    ("tokenize", of_another, "'another', and 'fake'"),
    ("tokenize", lambda response: response.items.add(), "2 entries for 1 inputs"),
    ("tokenize", lambda response: response.items[0].ids.__setitem__(0, -1), "the model knows 1000"),
    ("tokenize", lambda response: response.items[0].ends.__setitem__(1, 500), "leave the text"),
    ("tokenize_ids", lambda response: response.items[0].ids.__setitem__(0, 2), "not those that were sent"),
]


@pytest.mark.parametrize(("method", "change", "says"), BAD_TOKENS)
def test_tokens_that_do_not_fit_the_text_are_a_bad_answer(
    ask: Ask, servicer: FakeServicer, method: str, change: Callable[[pb.TokenizeResponse], object], says: str
) -> None:
    servicer.change_tokens = change
    with pytest.raises(BadAnswer, match=says):
        ask(METHODS[method])


BAD_OCCLUSIONS: list[tuple[Callable[[pb.OccludeResponse], object], str]] = [
    (of_another, "'another', and 'fake'"),
    (lambda response: setattr(response.moved, "data", np.float32(np.nan).tobytes()), "NaN or infinite"),
    (lambda response: setattr(response.moved, "data", np.float32(-1).tobytes()), "none is below 0"),
    (lambda response: response.tokens.__setitem__(0, 50), "not some of 5"),
    (lambda response: setattr(response.moved, "dtype", pb.DATA_TYPE_UINT16), "element type 4"),
]


@pytest.mark.parametrize(("change", "says"), BAD_OCCLUSIONS)
def test_distances_that_cannot_be_are_a_bad_answer(
    ask: Ask, servicer: FakeServicer, change: Callable[[pb.OccludeResponse], object], says: str
) -> None:
    servicer.change_occlusion = change
    with pytest.raises(BadAnswer, match=says):
        ask(METHODS["occlusion"])


BAD_MODELS: list[tuple[Callable[[Any], object], str]] = [
    (of_another, "'another', and 'fake'"),
    (lambda response: setattr(response.info, "layers", 2**31), "info.layers is 2147483648"),
    (lambda response: setattr(response.info, "heads", 0), "info.heads is 0"),
    (lambda response: response.info.MergeFrom(pb.ModelInfo(layers=512, heads=512)), "65536 maps"),
    (lambda response: setattr(response.info, "pooled_dim", 2**30), "info.pooled_dim is"),
    (lambda response: setattr(response.info, "max_length", 2**30), "info.max_length is"),
]


@pytest.mark.parametrize("method", ["model", "encode", "attend", "pieces"])
@pytest.mark.parametrize(("change", "says"), BAD_MODELS)
def test_a_description_that_no_encoder_has_is_a_bad_answer(
    ask: Ask, servicer: FakeServicer, method: str, change: Callable[[pb.GetModelResponse], object], says: str
) -> None:
    servicer.change_model = change
    with pytest.raises(BadAnswer, match=says):
        ask(METHODS[method])
    assert not servicer.encoded


def test_if_no_model_was_named_another_than_described_is_mixed_weights(target: str, servicer: FakeServicer) -> None:
    servicer.change_answer = servicer.change_tokens = of_another
    with Client(target, timeout=SECONDS) as client:
        for method in ("encode", "attend", "pieces", "tokenize"):
            with pytest.raises(MixedWeights, match=r"fake 1, now another 1\).*call again"):
                list(METHODS[method](client))


def test_weights_replaced_since_the_description_are_no_bad_answer(ask: Ask, servicer: FakeServicer) -> None:
    def replaced(response: Answer) -> None:
        wider(response)
        response.model.bundle_sha256 = "cd" * 32

    servicer.change_answer = replaced
    with pytest.raises(MixedWeights, match="weights were replaced"):
        ask(METHODS["encode"])


@pytest.mark.parametrize("normalized", [True, False])
def test_unit_length_is_expected_where_the_model_promises_it(
    ask: Ask, servicer: FakeServicer, normalized: bool
) -> None:
    servicer.normalized = normalized  # its vectors are not
    with pytest.raises(BadAnswer, match="unit length") if normalized else contextlib.nullcontext():
        ask(METHODS["encode"])


def test_a_vector_of_zeros_stays_one(ask: Ask, servicer: FakeServicer) -> None:
    servicer.change_answer = scaled("pooled", 0)
    assert not ask(METHODS["unit"]).any()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_rows_are_as_exact_as_the_precision_they_were_computed_in(
    ask: Ask, servicer: FakeServicer, precision: str
) -> None:
    def change(response: Answer) -> None:
        scaled("attention", 1.004)(response)
        response.model.precision = precision

    servicer.change_answer = change
    with pytest.raises(BadAnswer, match="sums to") if precision == "fp32" else contextlib.nullcontext():
        ask(METHODS["attend"])


def garbage(request: bytes, context: Any) -> bytes:
    return b"\xff\xff\xff"


def garbage_frames(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
    next(requests)
    yield b"\xff\xff\xff"


@pytest.fixture
def undecodable() -> Iterator[str]:
    """A server that describes its model and else sends bytes that are no message."""
    described = FakeServicer(default_limits()).GetModel(pb.GetModelRequest(), None).SerializeToString()
    unary = grpc.unary_unary_rpc_method_handler
    methods = {
        "GetModel": unary(lambda request, context: described),
        **{name: unary(garbage) for name in ("Encode", "Tokenize", "Occlude")},
        "EncodeStream": grpc.stream_stream_rpc_method_handler(garbage_frames),
    }
    server = grpc.server(futures.ThreadPoolExecutor(2))
    handler = grpc.method_handlers_generic_handler("headlight.v1.HeadlightService", methods)
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


UNDECODABLE = ("encode", "attend", "tokenize", "occlusion", "attention_bytes", "pieces")


@pytest.mark.parametrize("method", UNDECODABLE)
def test_bytes_that_are_no_message_are_a_bad_answer(undecodable: str, method: str) -> None:
    with Client(undecodable, timeout=SECONDS) as client, pytest.raises(BadAnswer, match="no message of the contract"):
        list(METHODS[method](client))


@pytest.mark.parametrize("method", UNDECODABLE)
def test_and_for_asyncio(undecodable: str, method: str) -> None:
    with pytest.raises(BadAnswer, match="no message of the contract"):
        asyncio.run(awaited(undecodable, METHODS[method]))


def test_a_bad_answer_is_an_engine_error_to_code_that_knows_no_better() -> None:
    assert issubclass(BadAnswer, EngineError)


def all_rows(response: Answer) -> None:
    """Vectors of all tokens, though special ones were to be left out."""
    response.tokens.CopyFrom(ragged([np.ones((item.token_count, DIM), np.float32) for item in response.items], []))
    response.ClearField("kept_tokens")


def test_all_rows_where_some_were_asked_for_are_a_bad_answer(ask: Ask, servicer: FakeServicer) -> None:
    servicer.change_answer = all_rows
    with pytest.raises(BadAnswer, match="kept_tokens names tokens of 0 inputs, and 1 were expected"):
        ask(METHODS["token_vectors"])
