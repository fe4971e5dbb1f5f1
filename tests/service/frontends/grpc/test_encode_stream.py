"""EncodeStream over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import CancelledError
from typing import Any

import grpc
import pytest

from headlight.pb import headlight_pb2 as pb
from headlight_service.core.admission.answer_window import AnswerWindow
from tests.service.calls import until
from tests.service.conftest import Serve, Service

EOF: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # unknown to the stubs
LARGE = pb.Outputs(attention=pb.AttentionOutput(layers=[0]))
LARGE_TOKENS = 1500  # 18 MB: far more than the transport buffers on its own


def ask(
    request_id: str, tokens: int = 2, outputs: pb.Outputs | None = None
) -> pb.EncodeStreamRequest:
    content = pb.Input(ids=pb.TokenIds(ids=[1] * tokens)) if tokens else pb.Input(text="")
    return pb.EncodeStreamRequest(
        id=request_id, encode=pb.EncodeRequest(inputs=[content], outputs=outputs)
    )


async def frames_of(call: Any) -> list[pb.EncodeStreamResponse]:
    """Return all frames that are still to come."""
    frames = []
    while (frame := await call.read()) != EOF:
        frames.append(frame)
    return frames


def kinds(frames: list[pb.EncodeStreamResponse], request_id: str) -> list[str]:
    return [frame.WhichOneof("frame") or "" for frame in frames if frame.id == request_id]


async def test_large_answers_are_chunked_and_do_not_block_small_ones(service: Service) -> None:
    call = service.stub.EncodeStream()
    await call.write(ask("large", LARGE_TOKENS, LARGE))
    first = await call.read()
    assert (first.id, first.WhichOneof("frame")) == ("large", "header")
    await service.started()  # the large one's batch
    await call.write(ask("small"))  # while the large one is being sent
    await call.done_writing()
    # The small answer is sent next: while unread, most of the large one
    # cannot have left the server.
    await until(lambda: service.metric("headlight_texts_total", priority="interactive") == 2)
    frames = [first, *await frames_of(call)]
    chunks = [frame.chunk for frame in frames if frame.WhichOneof("frame") == "chunk"]
    assert kinds(frames, "small") == ["response"]
    assert frames[-1].id == "large", "the small one overtook"
    assert frames[-1].end.chunks == len(chunks)
    assert sum(len(chunk.data) for chunk in chunks) == first.header.attention.offsets[-1] * 4


async def test_an_id_can_be_used_again_once_answered(service: Service) -> None:
    call = service.stub.EncodeStream()
    # The caller may be faster than the server's work after its last frame.
    for _ in range(300):
        await call.write(ask("same"))
        assert (await call.read()).WhichOneof("frame") == "response"
    await call.done_writing()
    assert await call.read() == EOF


@pytest.mark.parametrize("bad_id", ["", "é" * 65])
async def test_an_invalid_id_ends_the_stream_after_the_other_answers(
    service: Service, bad_id: str
) -> None:
    service.engine.gate.clear()
    call = service.stub.EncodeStream()
    await call.write(ask("first"))
    await service.started()
    await call.write(ask(bad_id))
    service.engine.gate.set()
    assert (await call.read()).id == "first"
    with pytest.raises(grpc.aio.AioRpcError, match="id: must have 1 to 128 bytes"):
        await call.read()


async def test_an_id_in_use_is_refused(service: Service) -> None:
    service.engine.gate.clear()
    call = service.stub.EncodeStream(iter([ask("same"), ask("same")]))
    await service.started()
    # The second is read while the first is held; the stream then ends as soon as the first is
    # answered.
    reading = asyncio.ensure_future(frames_of(call))
    await until_read(service)
    service.engine.gate.set()
    with pytest.raises(grpc.aio.AioRpcError, match="id: is that of a request still unanswered"):
        await reading


async def until_read(service: Service) -> None:
    """Wait until the only stream reads no more."""
    [call] = service.servicer._streams
    assert call._reader is not None
    await asyncio.wait([call._reader], timeout=30)


async def test_no_more_requests_are_read_than_may_be_in_flight(serve: Serve) -> None:
    async with serve(max_stream_in_flight=2, streams=2, batch_tokens=2) as service:
        service.engine.gate.clear()
        call = service.stub.EncodeStream(iter([ask(str(place)) for place in range(5)]))
        await service.started()
        await service.started()
        assert service.metric("headlight_queue_tokens") == 4
        service.engine.gate.set()
        assert len(await frames_of(call)) == 5


async def test_computation_for_a_slow_reader_is_limited_by_its_window(serve: Serve) -> None:
    size = 4 * 2 * LARGE_TOKENS**2
    async with serve(max_stream_output_bytes=size) as service:
        call = service.stub.EncodeStream(
            iter([ask(str(place), LARGE_TOKENS, LARGE) for place in range(3)])
        )
        first = await call.read()
        assert first.WhichOneof("frame") == "header"
        assert len(service.engine.batches) == 1
        frames = await frames_of(call)
    assert len(service.engine.batches) == 3
    assert [frame.WhichOneof("frame") for frame in frames].count("end") == 3


async def test_an_answer_larger_than_the_window_is_refused_before_computation(
    serve: Serve,
) -> None:
    async with serve(max_stream_output_bytes=1 << 20) as service:
        [frame] = await frames_of(service.stub.EncodeStream(iter([ask("1", LARGE_TOKENS, LARGE)])))
        assert frame.error.message.startswith(
            "outputs.attention: the answer would have 18000000 bytes"
        )
        assert service.engine.batches == []


async def test_draining_answers_read_requests_and_ends_as_unavailable(service: Service) -> None:
    service.engine.gate.clear()
    call = service.stub.EncodeStream()
    await call.write(ask("1"))
    await service.started()
    service.servicer.drain()
    service.engine.gate.set()
    assert (await call.read()).WhichOneof("frame") == "response"
    with pytest.raises(grpc.aio.AioRpcError, match="resend unanswered requests") as error:
        await call.read()
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(grpc.aio.AioRpcError, match="resend unanswered requests"):
        await service.stub.EncodeStream().read()


async def test_draining_does_not_fail_a_half_closed_stream(service: Service) -> None:
    service.engine.gate.clear()
    call = service.stub.EncodeStream(iter([ask("1")]))
    await service.started()
    await until_read(service)
    service.servicer.drain()
    service.engine.gate.set()
    assert kinds(await frames_of(call), "1") == ["response"]


async def test_a_disconnecting_caller_frees_everything(single: Service) -> None:
    single.engine.gate.clear()
    call = single.stub.EncodeStream()
    await call.write(ask("1"))
    await single.started()
    await call.write(ask("2"))
    call.cancel()
    await single.in_flight.idle()
    assert single.metric("headlight_queue_tokens") == 2, "what is being computed for nobody"
    single.engine.gate.set()
    await until(lambda: single.metric("headlight_queue_tokens") == 0)
    await single.stub.Encode(ask("3", 3).encode)
    assert [len(batch[0].ids) for batch in single.engine.batches] == [2, 3]


async def test_a_failed_request_does_not_affect_the_stream(single: Service) -> None:
    single.engine.poison = 66
    poison = pb.EncodeRequest(inputs=[pb.Input(ids=pb.TokenIds(ids=[66]))])
    call = single.stub.EncodeStream()
    await call.write(pb.EncodeStreamRequest(id="poison", encode=poison))
    assert (await call.read()).error.code == grpc.StatusCode.INTERNAL.value[0]
    await call.write(ask("good"))
    assert (await call.read()).id == "good"
    call.cancel()


async def test_a_request_at_a_closed_window_has_no_error_of_its_own(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another answer of the stream met the reply timeout; the end of the call follows."""
    monkeypatch.setattr(AnswerWindow, "enter", lambda window, size, proceed: _closed())
    async with serve() as service:
        call = service.stub.EncodeStream(iter([ask("large", LARGE_TOKENS, LARGE)]))
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.CancelledError):
            assert await frames_of(call) == []
        await service.in_flight.idle()
        assert service.engine.batches == []
        assert service.model.admission.requests.held == service.model.admission.outputs.held == 0
    assert "unexpected_failure" not in [getattr(record, "event", "") for record in caplog.records]


def _closed() -> bool:
    raise CancelledError
