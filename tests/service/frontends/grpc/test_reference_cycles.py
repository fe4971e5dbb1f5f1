"""Memory of a call is released when it ends.

Not at the next garbage collection, which counts objects and not their bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import types
from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message

from headlight.errors import EngineError
from headlight.pb import headlight_pb2 as pb
from headlight_service.core.handle import Handle
from headlight_service.core.requests.answer import Answer, Prepared
from headlight_service.core.requests.request import Request
from headlight_service.core.scheduler.pending_requests import PendingRequest
from headlight_service.frontends.grpc import peer_timeouts
from tests.service.calls import request, text_of, until
from tests.service.conftest import Serve, Service
from tests.service.tracing import RecordedSpans

HELD = (Request, Prepared, Answer, PendingRequest, Handle)
HEAVY = (Message, *HELD, grpc.aio.AbortError)
EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # unknown to the stubs
CALLS = 8  # gRPC itself remembers the last one
LARGE = pb.Outputs(attention=pb.AttentionOutput())


@contextlib.asynccontextmanager
async def uncollected(
    kinds: tuple[type, ...] = HEAVY, *, frames: bool = True
) -> AsyncIterator[list[Any]]:
    """Run calls that leave no objects of these kinds, nor frames of the service, to the collector.

    Yields all that it frees, filled in once the calls have ended. The collector does not track
    tuples of arrays; AbortError shows gRPC's record of a call.
    """
    found: list[Any] = []
    before = asyncio.all_tasks()
    gc.collect()
    gc.disable()
    try:
        yield found
        # An answer can arrive before its handler has ended. The task that waits for the next call
        # never ends.
        await asyncio.wait_for(
            asyncio.gather(*filter(ends, asyncio.all_tasks() - before), return_exceptions=True), 30
        )
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert [each for each in found if isinstance(each, kinds)] == []
    assert not frames or service_frames(found) == []


def ends(task: asyncio.Task[Any]) -> bool:
    return "_request" not in getattr(task.get_coro(), "__qualname__", "")


def service_frames(found: Iterable[Any]) -> list[str]:
    frames = [each for each in found if isinstance(each, types.FrameType)]
    return [
        frame.f_code.co_qualname
        for frame in frames
        if frame.f_globals["__name__"].startswith("headlight_service.")
    ]


def streamed(*, length: int = 2, **fields: Any) -> pb.EncodeStreamRequest:
    return pb.EncodeStreamRequest(id="1", encode=request(text_of(length), **fields))


async def ended(call: Any) -> None:
    """Read to the end; do not keep the traceback, which references the sent messages."""
    with contextlib.suppress(grpc.aio.AioRpcError):
        while await call.read() != EOF:
            pass


@pytest.mark.parametrize(
    "bad", [b"\xff\xff\xff", b"\x12\x02\x0a\x00" * 1000], ids=["undecodable", "refused"]
)
async def test_a_refused_request_leaves_no_reference_cycle(service: Service, bad: bytes) -> None:
    channel: Any = service.channel  # whose stubs want serializers, which bytes need not
    async with uncollected():
        for _ in range(CALLS):
            with contextlib.suppress(grpc.aio.AioRpcError):
                await channel.unary_unary("/headlight.v1.HeadlightService/Encode")(bad)


@pytest.mark.parametrize("traced", [False, True])
async def test_an_answered_request_leaves_no_reference_cycle(
    serve: Serve, recorded: RecordedSpans, traced: bool
) -> None:
    async with serve(tracing=recorded.tracing if traced else None) as service:
        async with uncollected() as found:
            for _ in range(CALLS):
                await service.stub.Encode(request())
        # Among them gRPC's record of the call, with its buffers.
        assert [
            each for each in found if type(each).__name__ in ("RPCState", "_ServicerContext")
        ] == []


@pytest.mark.parametrize("traced", [False, True])
async def test_an_expired_stream_request_leaves_no_reference_cycle(
    serve: Serve, recorded: RecordedSpans, traced: bool
) -> None:
    async with serve(tracing=recorded.tracing if traced else None, streams=1) as service:
        running = await service.hold(service.stub.Encode(request()))
        async with uncollected():
            await ended(service.stub.EncodeStream(iter([streamed()]), timeout=0.1))
            service.engine.gate.set()
            await running


async def test_an_expired_unary_request_leaves_no_reference_cycle(single: Service) -> None:
    running = await single.hold(single.stub.Encode(request()))
    async with uncollected():
        for _ in range(CALLS):
            await expired(single.stub.Encode(request(), timeout=0.05))
        await until(lambda: single.in_flight.count == 1)
        single.engine.gate.set()
        await running


async def expired(call: Any) -> None:
    """Wait for a call; do not keep the traceback, which references the sent messages."""
    with contextlib.suppress(grpc.aio.AioRpcError):
        await call


@pytest.mark.parametrize(
    "error", [EngineError("the model failed"), RuntimeError("a bug")], ids=["known", "unexpected"]
)
async def test_failed_requests_leave_no_reference_cycle(single: Service, error: Exception) -> None:
    single.engine.broken = error
    async with uncollected(frames=False):
        for _ in range(CALLS):
            await expired(single.stub.Encode(request()))
            await ended(single.stub.EncodeStream(iter([streamed()])))


@pytest.mark.usefixtures("steady")
async def test_results_of_a_stalled_reader_leave_no_reference_cycle(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time to come and read its status.
    monkeypatch.setattr(peer_timeouts, "LEAST_LINGER_SECONDS", 60)
    async with serve(stall_seconds=0.2) as service, uncollected(HELD, frames=False):
        call = service.stub.EncodeStream(iter([streamed(length=1500, outputs=LARGE)]))
        await call.read()
        await asyncio.wait_for(service.in_flight.idle(), 30)  # meanwhile nothing is read
        await ended(call)
        assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
