"""Streams of a hostile server.

Unrequested frames, sizes beyond the request, and messages that are too large.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import grpc
import numpy as np
import pytest

from headlight import AttentionSpec, BadAnswer, InvalidInput
from headlight.client.call_flow import Retries
from headlight.client.calls.list_work import STOCK_MESSAGE_BYTES
from headlight.errors import DeadlineExceeded, Overloaded, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight.wire.status_errors import LONGEST_DELAY_SECONDS
from tests.headlight.conftest import Open
from tests.headlight.fake_model import HEADS, LAYERS
from tests.headlight.fake_server import FakeServicer, Refusal, abort, default_limits, serving, shed

SECONDS = 60  # timeout of the client and of waits for the server; no test reaches it
TEXT = "one two three"
Frames: TypeAlias = list[pb.EncodeStreamResponse]
Method: TypeAlias = "Callable[[Any], Any]"

STREAMED: dict[str, Method] = {
    "attend": lambda client: client.attend(TEXT),
    "tokens": lambda client: client.encode_tokens([TEXT]),
    "hidden": lambda client: client.hidden(TEXT),
    "pieces": lambda client: list(client.attention_pieces(TEXT, AttentionSpec())),
}
METHODS: dict[str, Method] = {
    **STREAMED,
    "encode": lambda client: client.encode(TEXT),
    "tokenize": lambda client: client.tokenize(TEXT),
}


@dataclasses.dataclass
class Streaming(FakeServicer):
    """Fake that records when a stream has ended."""

    ended: threading.Event = dataclasses.field(default_factory=threading.Event)

    def EncodeStream(
        self, requests: Iterator[pb.EncodeStreamRequest], context: Any
    ) -> Iterator[pb.EncodeStreamResponse]:
        context.add_callback(self.ended.set)
        yield from super().EncodeStream(requests, context)


@pytest.fixture
def servicer() -> Streaming:
    limits = default_limits()
    limits.max_stream_output_bytes = 2**50  # it must not protect the client
    limits.max_unary_response_bytes = 64  # so that all answers are streamed
    return Streaming(limits)


@pytest.fixture
def client(open_client: Open) -> Any:
    """Return a client of either kind."""
    return open_client(timeout=SECONDS)


def of_unknown_ids(frames: Frames) -> Iterator[pb.EncodeStreamResponse]:
    return (pb.EncodeStreamResponse(id=f"unknown {at}") for at in itertools.count())


def of_empty_frames(frames: Frames) -> Iterator[pb.EncodeStreamResponse]:
    return itertools.repeat(pb.EncodeStreamResponse(id=frames[0].id))


def of_one_chunk(frames: Frames) -> Iterator[pb.EncodeStreamResponse]:
    return itertools.chain(frames[:2], itertools.repeat(frames[1]))


def of_empty_chunks(frames: Frames) -> Iterator[pb.EncodeStreamResponse]:
    empty = pb.EncodeStreamResponse(id=frames[0].id, chunk=pb.Chunk(output=frames[1].chunk.output))
    return itertools.chain(frames[:1], itertools.repeat(empty))


def of_whole_answers(frames: Frames) -> Iterator[pb.EncodeStreamResponse]:
    return itertools.chain.from_iterable(itertools.repeat(frames))


ENDLESS = [of_unknown_ids, of_empty_frames, of_one_chunk, of_empty_chunks, of_whole_answers]


@pytest.mark.parametrize("method", ["tokens", "pieces"])
@pytest.mark.parametrize("change", ENDLESS)
def test_an_endless_stream_is_cancelled(
    client: Any,
    servicer: Streaming,
    method: str,
    change: Callable[[Frames], Iterator[pb.EncodeStreamResponse]],
) -> None:
    servicer.change_frames = change
    with pytest.raises(BadAnswer):
        STREAMED[method](client)
    assert servicer.ended.wait(SECONDS), "the call was not cancelled"


def announced(
    output: str, sizes: Callable[[int], tuple[int, ...]], tokens: int = 0
) -> Callable[[Frames], Frames]:
    """Return a header that announces numbers of these extents, given the tokens of the input."""

    def change(frames: Frames) -> Frames:
        header = frames[0].header
        if tokens:
            header.items[0].token_count = header.items[0].original_token_count = tokens
        tensor = getattr(header, output)
        extents = sizes(header.items[0].token_count)
        del tensor.shapes[:], tensor.offsets[:]
        tensor.shapes.add(sizes=extents)
        tensor.offsets.extend([0, int(np.prod([float(extent) for extent in extents]))])
        return frames[:1]

    return change


MANY = 2**20
TOO_LARGE = [
    (
        "attend",
        announced("attention", lambda n: (LAYERS, HEADS, n, n), tokens=MANY),
        "token_count is 1048576",
    ),
    (
        "attend",
        announced("attention", lambda n: (LAYERS, HEADS, n, n), tokens=33),
        r"token_count is 33, and 1 \.\. 32",
    ),
    (
        "pieces",
        announced("attention", lambda n: (LAYERS, HEADS, n, n), tokens=MANY),
        "token_count is 1048576",
    ),
    ("tokens", announced("tokens", lambda n: (n, 2**30)), r"1073741824\)\], and .* was requested"),
    (
        "hidden",
        announced("hidden", lambda n: (LAYERS + 1, n, 2**30)),
        r"1073741824\)\], and .* was requested",
    ),
]


@pytest.mark.parametrize(("method", "change", "says"), TOO_LARGE)
def test_no_more_memory_is_reserved_than_the_request_allows(
    client: Any,
    servicer: Streaming,
    method: str,
    change: Callable[[Frames], Frames],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reserved: list[int] = []
    empty = np.empty

    def counted(shape: Any, *arguments: Any, **keywords: Any) -> Any:
        reserved.append(int(np.prod(shape)))
        return empty(shape, *arguments, **keywords)

    monkeypatch.setattr("headlight.wire.reassembly.np.empty", counted)
    servicer.change_frames = change
    with pytest.raises(BadAnswer, match=says):
        STREAMED[method](client)
    assert max(reserved, default=0) < 10_000


def test_a_text_cannot_have_more_tokens_than_its_characters_make(
    client: Any, servicer: Streaming
) -> None:
    servicer.max_length = 2**20
    servicer.change_frames = announced("attention", lambda n: (LAYERS, HEADS, n, n), tokens=2**16)
    with pytest.raises(BadAnswer, match=r"token_count is 65536, and 1 \.\. "):
        STREAMED["attend"](client)


@pytest.mark.parametrize("method", ["encode", "attend", "pieces"])
def test_a_message_larger_than_the_request_allows_is_not_read(
    client: Any, servicer: Streaming, method: str
) -> None:
    def swollen(response: pb.EncodeResponse) -> None:
        response.model.version = "x" * (STOCK_MESSAGE_BYTES + 1)

    servicer.change_answer = swollen
    servicer.limits.max_unary_response_bytes = 2**50
    with pytest.raises(
        BadAnswer, match=r"larger than any answer to this request .*larger than max"
    ):
        METHODS[method](client)


def test_a_legitimately_large_token_list_is_an_error_of_the_caller(
    client: Any, servicer: Streaming
) -> None:
    def swollen(response: pb.TokenizeResponse) -> None:
        response.model.version = "x" * (STOCK_MESSAGE_BYTES + 1)

    servicer.change_tokens = swollen
    servicer.limits.max_unary_response_bytes = 2**50
    with pytest.raises(BadAnswer, match="larger than max"):
        client.tokenize(["one"])
    with pytest.raises(InvalidInput, match="send or ask for less"):
        client.tokenize(["word " * 60_000])


def test_long_error_messages_of_a_server_are_truncated(client: Any, servicer: Streaming) -> None:
    def talkative(response: pb.EncodeResponse) -> None:
        response.attention_map.axes[0] = "\x1b[2J" + "layer" * 100_000

    servicer.change_answer = talkative
    with pytest.raises(BadAnswer) as caught:
        STREAMED["attend"](client)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("seconds", [59.0, 3600.0, LONGEST_DELAY_SECONDS, 2.0**63])
def test_waits_without_a_timeout_are_bounded(seconds: float) -> None:
    waited = [
        Retries(None).delay(Overloaded("the queue is full", seconds)) or 0.0 for _ in range(50)
    ]
    assert min(59.0, seconds) <= min(waited) <= max(waited) <= 60.0


def test_eight_retries_follow_a_call_without_an_answer() -> None:
    retries, full = Retries(None), Overloaded("the queue is full", 0.0)
    assert [retries.delay(full) is None for _ in range(9)] == [False] * 8 + [True]


@pytest.mark.parametrize("method", ["encode", "attend", "tokenize", "pieces"])
def test_a_pushback_beyond_the_timeout_raises_the_server_error_at_once(
    client: Any, servicer: Streaming, method: str
) -> None:
    begun = time.monotonic()
    servicer.refusals.append(shed(4_000_000_000))
    with pytest.raises(Overloaded, match="the queue is full") as caught:
        METHODS[method](client)
    assert caught.value.retry_after_seconds is not None
    assert (
        LONGEST_DELAY_SECONDS - SECONDS < caught.value.retry_after_seconds <= LONGEST_DELAY_SECONDS
    )
    assert time.monotonic() - begun < SECONDS / 2


@dataclasses.dataclass
class Away(FakeServicer):
    """Fake that is UNAVAILABLE with a retry delay of a year.

    gRPC itself waits for that before it retries a call.
    """

    def Encode(self, request: pb.EncodeRequest, context: Any) -> pb.EncodeResponse:
        trailing = (("grpc-retry-pushback-ms", str(365 * 86_400_000)),)
        abort(context, Refusal(grpc.StatusCode.UNAVAILABLE, "away", trailing))


def test_the_timeout_bounds_retry_waits_of_grpc(open_client: Open) -> None:
    begun = time.monotonic()
    with (
        serving(Away(default_limits())) as target,
        pytest.raises((DeadlineExceeded, Unavailable)),
    ):
        open_client(target, timeout=1).encode(TEXT)
    assert time.monotonic() - begun < SECONDS
