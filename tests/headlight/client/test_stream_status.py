"""Status of asyncio streams that end while the client is still sending.

The server's status, not gRPC's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from headlight import (
    AsyncClient,
    AttentionSpec,
    DeadlineExceeded,
    EngineError,
    Overloaded,
    Unauthenticated,
    Unavailable,
)
from headlight.client.async_client import OVERWRITTEN, true_status
from headlight.pb import headlight_pb2 as pb
from headlight.wire.status_errors import error_of_call
from tests.headlight.fake_server import FakeServicer, Refusal, abort, default_limits

TEXTS = ["one text of many, in a request of its own"] * 50
SPEC = AttentionSpec()


@dataclasses.dataclass
class Ending(FakeServicer):
    """Fake that ends each stream after its first request."""

    def EncodeStream(
        self, requests: Iterator[pb.EncodeStreamRequest], context: Any
    ) -> Iterator[pb.EncodeStreamResponse]:
        next(requests)
        abort(context, Refusal(grpc.StatusCode.UNAUTHENTICATED, "the token is wrong"))


@pytest.fixture
def servicer() -> Ending:
    return Ending(default_limits())


async def test_the_server_status_is_raised_while_requests_are_being_written(target: str) -> None:
    async with AsyncClient(target) as client:
        for _ in range(40):  # gRPC replaces some of them with its own
            with pytest.raises(Unauthenticated, match="the token is wrong"):
                await client.attention(TEXTS, SPEC)


async def test_such_calls_are_counted_once_by_a_reloading_channel(
    target: str, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("one", encoding="ascii")
    async with AsyncClient(target, token_file=token_file) as client:
        for _ in range(20):
            with pytest.raises(Unauthenticated):
                await client.attention(TEXTS, SPEC)
        assert client._channel._generation.calls == 0  # type: ignore[union-attr] # it is a ReloadingChannel


class Overwritten:
    """Finished stream with one status and then gRPC's own, as in grpc.aio.

    Or with the latter alone.
    """

    def __init__(self, first: grpc.StatusCode | None, seconds: float | None = None) -> None:
        self.status = (
            (grpc.StatusCode.INTERNAL, OVERWRITTEN) if first is None else (first, "the server's")
        )
        self.seconds = seconds

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        callback(self)
        self.status = (grpc.StatusCode.INTERNAL, OVERWRITTEN)
        callback(self)

    def time_remaining(self) -> float | None:
        return self.seconds

    async def code(self) -> grpc.StatusCode:
        return self.status[0]

    async def details(self) -> str:
        return self.status[1]

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata(("grpc-retry-pushback-ms", "5"))

    def read(self) -> None:
        with true_status(self):
            raise grpc.aio.AioRpcError(
                self.status[0], grpc.aio.Metadata(), grpc.aio.Metadata(), self.status[1], ""
            )


def test_the_first_status_is_raised_with_its_details() -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="the server's") as caught:
        Overwritten(grpc.StatusCode.RESOURCE_EXHAUSTED).read()
    error = error_of_call(caught.value)
    assert isinstance(error, Overloaded)
    assert error.retry_after_seconds == 0.005


def test_a_status_of_grpc_alone_is_classified_by_the_remaining_time() -> None:
    for seconds, expected in ((0, DeadlineExceeded), (0.5, Unavailable), (None, Unavailable)):
        with pytest.raises(expected):
            Overwritten(None, seconds).read()


def test_a_stream_that_ends_ok_with_unread_requests_is_malformed() -> None:
    with pytest.raises(EngineError, match="before all requests were read"):
        Overwritten(grpc.StatusCode.OK).read()
