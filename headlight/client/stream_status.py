"""The status that a stream of asyncio ended with, as the server sent it.

Where a call ends while a request of it is being written, grpc.aio puts an INTERNAL of its own in the place of the server's status, and
that is what reading the call raises. Whoever is told that the call is done still sees the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, cast

import grpc

from headlight.errors import DeadlineExceeded, Unavailable
from headlight.wire.client_codec import malformed

OVERWRITTEN = "Internal error from Core"  # grpc.aio's words; no server sends them


@contextlib.contextmanager
def true_status(call: Any) -> Iterator[None]:
    """Raise, where reading a stream of asyncio fails, what it ended with first. To be entered before anything is read.

    Raises:
        grpc.aio.AioRpcError: the status that was not OK.
        DeadlineExceeded, Unavailable: there is none but gRPC's own, and the call's time has, or has not, passed.
        BadAnswer: it was OK, with requests yet to be written.
    """
    seen: list[grpc.aio.AioRpcError | None] = []
    call.add_done_callback(lambda done: seen.append(status_now(done)))
    try:
        yield
    except grpc.aio.AioRpcError as error:
        first = (seen[0] if seen else None) or error
        if first.code() is grpc.StatusCode.OK:
            raise malformed("the stream ended before all requests were read") from None
        if first.details() != OVERWRITTEN:
            raise first from None
        if call.time_remaining() == 0:
            raise DeadlineExceeded("the client's timeout passed") from None
        raise Unavailable("the connection was lost") from None


def status_now(call: Any) -> grpc.aio.AioRpcError | None:
    """The status of a call that is done, without waiting, for a moment later it may be another; None where that is not to be had."""
    asking = _status(call)
    try:
        asking.send(None)
    except StopIteration as answer:
        return cast("grpc.aio.AioRpcError", answer.value)
    asking.close()
    return None


async def _status(call: Any) -> grpc.aio.AioRpcError:
    code, trailing, details = await call.code(), await call.trailing_metadata(), await call.details()
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details, "")
