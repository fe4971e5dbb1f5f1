"""Slow and stalled readers, over a real socket.

Their memory, their time, and their effect on others.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight_service.app.health import SERVICE
from headlight_service.frontends import stall_timeout
from headlight_service.frontends.contract.answer_forms import CHUNK_BYTES
from headlight_service.frontends.grpc import peer_timeouts
from headlight_service.frontends.grpc.transport.grpc_call import Call, CallerGone
from headlight_service.frontends.stall_timeout import PACE_BYTES, ReplyTimeout
from headlight_service.telemetry.metrics import CANCEL_STAGES
from tests.service.calls import details_of, refused, request, text_of, until
from tests.service.conftest import Serve, Service
from tests.service.frontends.grpc.test_encode_stream import EOF, LARGE, LARGE_TOKENS, ask, frames_of
from tests.service.raw import closed_window

pytestmark = pytest.mark.usefixtures("steady")
TOKEN_INFO = pb.Outputs(token_info=pb.TokenInfoOutput())
LARGE_BYTES = 4 * 2 * LARGE_TOKENS**2
STUCK = {
    "Encode": request(text_of(400), outputs=LARGE),
    "Tokenize": pb.TokenizeRequest(inputs=[text_of(3000)]),
    "GetModel": pb.GetModelRequest(),
}


def held(service: Service) -> float:
    return service.metric("headlight_held_output_bytes") or 0


def rejected(service: Service, reason: str) -> float | None:
    return service.metric("headlight_rejected_total", reason=reason)


def handled(service: Service, method: str, code: str, kind: str = "unary") -> float | None:
    labels = {"grpc_type": kind, "grpc_service": SERVICE, "grpc_method": method, "grpc_code": code}
    return service.sample("grpc_server_handled_total", **labels)


def test_the_reply_timeout_is_per_answer_and_not_per_frame() -> None:
    reply_timeout = ReplyTimeout(20)
    assert reply_timeout.remaining == 20
    for _ in range(2):  # a frame now and then is not enough
        reply_timeout.took(1000, 9.9)
    assert reply_timeout.remaining == pytest.approx(0.2, abs=0.01)
    fast = ReplyTimeout(20)
    fast.took(4 * PACE_BYTES, 1)
    assert fast.remaining == 20, (
        "what was taken fast gives credit, but nobody may take nothing for longer"
    )
    fast.took(0, 80)
    assert fast.remaining == pytest.approx(19)


async def test_a_stalled_reader_is_disconnected_and_its_memory_released(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Time to come and read its status.
    monkeypatch.setattr(peer_timeouts, "LEAST_LINGER_SECONDS", 60)
    async with serve(stall_seconds=0.2) as service:
        call = service.stub.EncodeStream(
            iter([ask(str(place), LARGE_TOKENS, LARGE) for place in range(3)])
        )
        assert (await call.read()).WhichOneof("frame") == "header"
        assert held(service) > LARGE_BYTES
        await asyncio.wait_for(service.in_flight.idle(), 30)  # meanwhile nothing is read
        # The frame that is in the transport is held still.
        await until(lambda: held(service) <= CHUNK_BYTES + 4096)
        assert rejected(service, "stalled_reader") == 1
        assert handled(service, "EncodeStream", "RESOURCE_EXHAUSTED", "bidi_stream") == 1
        with pytest.raises(grpc.aio.AioRpcError, match=r"too little was read for 0\.2 s") as cut:
            await frames_of(call)
        assert cut.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await until(lambda: held(service) == 0)
        assert service.metric("headlight_held_request_bytes") == 0
        assert (await service.stub.Encode(ask("x").encode)).items


async def test_a_reply_timeout_is_not_counted_as_a_client_disconnect(serve: Serve) -> None:
    async with serve(stall_seconds=1) as service:
        call = service.stub.EncodeStream()
        for name in ("sent", "waits to be sent"):
            await call.write(ask(name, LARGE_TOKENS, LARGE))
            await service.started()
        assert (await call.read()).WhichOneof("frame") == "header"
        service.engine.gate.clear()
        await call.write(ask("is computed"))
        await service.started()
        await service.in_flight.idle()  # meanwhile nothing is read
        assert rejected(service, "stalled_reader") == 1
        stages = {
            stage: service.metric("headlight_cancelled_total", stage=stage)
            for stage in CANCEL_STAGES
        }
        assert stages == dict.fromkeys(CANCEL_STAGES, 0)
        call.cancel()


async def test_a_reader_that_ignores_its_status_loses_its_connection(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_timeouts, "LEAST_LINGER_SECONDS", 0.2)
    async with serve(stall_seconds=0.2) as service:
        call = service.stub.EncodeStream(iter([ask("1", LARGE_TOKENS, LARGE)]))
        assert (await call.read()).WhichOneof("frame") == "header"
        await until(lambda: rejected(service, "stalled_reader") == 1)
        await until(lambda: held(service) == 0)  # though not a byte more is read
        with pytest.raises(grpc.aio.AioRpcError):
            await frames_of(call)
        assert (await service.stub.Encode(ask("x").encode)).items, "on a new connection"


async def test_an_occasional_frame_does_not_extend_the_reply_timeout(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each frame is read in time; all 18 would take ten times the reply timeout."""
    monkeypatch.setattr(stall_timeout, "PACE_BYTES", 1 << 40)
    monkeypatch.setattr(peer_timeouts, "LEAST_LINGER_SECONDS", 60)  # as above
    loop, frames = asyncio.get_running_loop(), 0

    async def read_slowly(call: Any) -> None:
        nonlocal frames
        while await call.read() != EOF:
            frames += 1
            pause = asyncio.Event()
            loop.call_later(0.3, pause.set)
            await pause.wait()

    async with serve(stall_seconds=0.5) as service:
        with pytest.raises(grpc.aio.AioRpcError, match="too little was read"):
            await read_slowly(service.stub.EncodeStream(iter([ask("large", LARGE_TOKENS, LARGE)])))
    assert 1 < frames < 18


@pytest.mark.parametrize("method", STUCK)
async def test_a_unary_answer_keeps_its_permits_until_sent_and_times_out(
    serve: Serve, method: str
) -> None:
    async with serve(stall_seconds=1) as service, closed_window(service.target) as client:
        client.ask(method, STUCK[method].SerializeToString())
        await until(lambda: service.in_flight.count == 1)
        if method != "GetModel":  # which is small, and holds nothing
            await until(lambda: bool(service.servicer._replies._waiting))
            assert held(service) > 20_000
            assert service.metric("headlight_held_request_bytes")
        await client.hung_up.wait()
        await service.in_flight.idle()
        assert held(service) == service.metric("headlight_held_request_bytes") == 0
        assert rejected(service, "stalled_reader") == 1
        assert handled(service, method, "RESOURCE_EXHAUSTED") == 1
        assert handled(service, method, "OK") is None
        assert (await service.stub.Encode(request())).items


async def test_an_unread_answer_times_out_though_its_connection_reads_others(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_timeouts, "AT_ONCE_BYTES", 0)
    async with serve(stall_seconds=0.2) as service, closed_window(service.target) as client:
        taken = itertools.count(0, 1 << 40)
        monkeypatch.setattr(peer_timeouts, "bytes_moved", lambda: {client.name: (next(taken), 0)})
        client.ask("Encode", STUCK["Encode"].SerializeToString())
        await client.hung_up.wait()
        await service.in_flight.idle()
        assert held(service) == 0
        assert rejected(service, "stalled_reader") == 1


async def test_a_dry_run_on_a_stream_holds_its_answer_until_it_is_read(serve: Serve) -> None:
    wanted = pb.EncodeRequest(inputs=[text_of(1000)] * 30, dry_run=True, outputs=TOKEN_INFO)
    async with serve(stall_seconds=0.5, max_request_tokens=30_000) as service:
        call = service.stub.EncodeStream(
            iter([pb.EncodeStreamRequest(id=str(place), encode=wanted) for place in range(3)])
        )
        await until(lambda: held(service) > 300_000)
        await until(lambda: rejected(service, "stalled_reader") == 1)
        call.cancel()
        await until(lambda: held(service) == 0)


async def test_unread_answers_are_bounded_and_small_ones_are_served(
    serve: Serve,
) -> None:
    large = STUCK["Encode"]
    async with serve(max_output_bytes=16 << 20) as service, closed_window(service.target) as client:
        for _ in range(40):  # 50 MB
            client.ask("Encode", large.SerializeToString())
        await until(
            lambda: (
                (rejected(service, "output_bytes") or 0) + len(service.servicer._replies._waiting)
                == 40
            )
        )
        assert 12 << 20 < held(service) <= 14 << 20, "an eighth is kept"
        assert (await service.stub.Encode(request())).items
        error = await refused(service.stub.Encode(large), grpc.StatusCode.RESOURCE_EXHAUSTED)
        assert details_of(error)["ErrorInfo"].reason == "OUTPUT_BYTES"
        assert handled(service, "Encode", "OK") == 1
    assert held(service) == 0


async def test_a_reader_that_disconnects_during_sending_holds_nothing(service: Service) -> None:
    async with closed_window(service.target) as client:
        client.ask("Encode", STUCK["Encode"].SerializeToString())
        await until(lambda: bool(service.servicer._replies._waiting))
    await service.in_flight.idle()
    assert held(service) == 0
    assert not service.servicer._replies._waiting
    assert rejected(service, "stalled_reader") == 0


@pytest.mark.parametrize("frames", [1, 3])
async def test_a_reader_that_disconnects_during_sending_is_counted(
    service: Service, frames: int
) -> None:
    call = service.stub.EncodeStream(iter([ask("1", LARGE_TOKENS, LARGE)]))
    for _ in range(frames):
        await call.read()
    call.cancel()
    await service.in_flight.idle()
    assert held(service) == 0
    assert service.metric("headlight_cancelled_total", stage="send") == 1
    assert rejected(service, "internal") == 0
    assert handled(service, "EncodeStream", "CANCELLED", "bidi_stream") == 1


async def test_a_disconnect_while_waiting_for_the_stream_window_is_counted(
    serve: Serve,
) -> None:
    async with serve(max_stream_output_bytes=LARGE_BYTES) as service:
        service.engine.gate.clear()
        call = service.stub.EncodeStream(
            iter([ask(str(place), LARGE_TOKENS, LARGE) for place in range(2)])
        )
        await service.started()
        [stream] = service.servicer._streams
        await until(lambda: bool(stream._window._waiting))
        call.cancel()
        await service.in_flight.idle()
        counted = [
            service.metric("headlight_cancelled_total", stage=stage) for stage in CANCEL_STAGES
        ]
        assert dict(zip(CANCEL_STAGES, counted, strict=True)) == {
            "tokenize": 0,
            "queue": 1,
            "infer": 1,
            "send": 0,
        }
        assert len(service.engine.batches) == 1, "the other is not computed for nobody"


async def test_a_client_disconnect_is_never_an_internal_error(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It appears as a cancelled task or a failed write, in random order."""
    for count, kind in enumerate((asyncio.CancelledError, CallerGone), 1):

        async def write(call: Call, response: Any, kind: type[BaseException] = kind) -> None:
            raise kind

        with monkeypatch.context() as patch:
            patch.setattr(Call, "write", write)
            stream = service.stub.EncodeStream(iter([ask("1")]))
            await stream.code()
        assert service.metric("headlight_cancelled_total", stage="send") == count
        await service.in_flight.idle()
        assert held(service) == service.metric("headlight_held_request_bytes") == 0
    assert service.metric("headlight_cancelled_total", stage="send") == 2
    assert rejected(service, "internal") == 0
