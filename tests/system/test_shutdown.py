"""SIGTERM under load: admitted requests are answered."""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import numpy as np

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from tests.system.conftest import bundle_of
from tests.system.processes import Service

CALLERS = 24
SECONDS = 250  # for any answer: a slow machine is no failure


async def test_sigterm_under_load_loses_no_admitted_request() -> None:
    """Each caller sends until it is refused.

    Every call must end with an answer or a retryable status; none may break off.
    """
    answered = 0
    refusals: list[grpc.aio.AioRpcError] = []
    with Service(bundle_of("docs-rope")) as service:
        started = asyncio.Event()
        async with grpc.aio.insecure_channel(service.target) as channel:
            stub = pb_grpc.HeadlightServiceStub(channel)
            request = pb.EncodeRequest(
                inputs=[pb.Input(text="open a file and read its lines " * 8)] * 16
            )

            async def caller() -> None:
                nonlocal answered
                while True:
                    try:
                        answer = await stub.Encode(request, timeout=SECONDS)
                    except grpc.aio.AioRpcError as error:
                        refusals.append(error)
                        return
                    vectors = np.frombuffer(answer.pooled[0].data, "<f4").reshape(
                        answer.pooled[0].shape
                    )
                    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
                    answered += 1
                    if answered >= 3 * CALLERS:
                        started.set()

            callers = [asyncio.create_task(caller()) for _ in range(CALLERS)]
            await asyncio.wait_for(started.wait(), timeout=SECONDS)
            before = answered
            service.terminate()
            await asyncio.wait_for(asyncio.gather(*callers), timeout=SECONDS)
        assert service.wait() == 0
    assert len(refusals) == CALLERS
    # The listener is closed, or the call came after the drain began: safe to send elsewhere.
    for refusal in refusals:
        assert refusal.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), refusal
        assert "Cancelling all calls" not in (refusal.details() or "")
    # Requests that arrive while gRPC stops are not read, but CANCELLED; it stops in a pause, so
    # that hardly any do.
    assert [refusal.code() for refusal in refusals].count(grpc.StatusCode.CANCELLED) <= 2
    # Calls were in flight at the signal, and they were answered.
    assert answered > before


async def test_sigterm_answers_sent_stream_requests_and_ends_as_unavailable() -> None:
    with Service(bundle_of("docs-rope")) as service:
        async with grpc.aio.insecure_channel(service.target) as channel:
            stub = pb_grpc.HeadlightServiceStub(channel)
            call = stub.EncodeStream()
            inputs = [pb.Input(text="open a file and read its lines " * 8)] * 32
            for number in range(4):
                await call.write(
                    pb.EncodeStreamRequest(id=str(number), encode=pb.EncodeRequest(inputs=inputs))
                )
            first = await call.read()
            service.terminate()
            answers = {first.id}
            with contextlib.suppress(grpc.aio.AioRpcError):  # looked at below, by its code
                while (frame := await call.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined]
                    assert frame.WhichOneof("frame") == "response"
                    answers.add(frame.id)
            code = await call.code()
        assert service.wait() == 0
    assert answers == {"0", "1", "2", "3"}
    assert code == grpc.StatusCode.UNAVAILABLE
