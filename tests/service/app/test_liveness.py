"""Liveness: a hanging engine is detected; an idle, busy or slow service is alive."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight.errors import DeadlineExceeded
from headlight_service.app.health import LIVENESS, READY_NAMES, STARTUP, Readiness
from headlight_service.app.liveness import LOOK_SECONDS, Liveness
from headlight_service.app.server_setup import build_health_server
from headlight_service.frontends.tei.service_info import OF_TASKS
from tests.service.batching import Clock, Setup
from tests.service.conftest import Serve
from tests.service.fakes import item
from tests.service.raw import closed_window

STUCK = 60.0
# Other names need a model of a task.
NAMES = (*(name for name in READY_NAMES if name not in OF_TASKS), STARTUP, LIVENESS)


def watched(setup: Setup) -> Liveness:
    """Return the liveness watch with a clock that stands still, so that the event loop seems well.

    The test controls the scheduler's clock.
    """
    liveness = Liveness(STUCK, Clock())
    liveness.add("batches", lambda: setup.scheduler.heartbeat.stalled_seconds)
    return liveness


def where(liveness: Liveness) -> str | None:
    return liveness.stalled_at


async def test_a_hanging_engine_fails_liveness_and_recovers_when_it_continues(setup: Setup) -> None:
    liveness = watched(setup)
    answer = await setup.hold(item(4))
    setup.clock.now += STUCK
    assert where(liveness) is None
    setup.clock.now += 1
    assert where(liveness) == "batches"
    setup.engine.gate.set()
    await answer
    assert where(liveness) is None


async def test_an_idle_service_is_alive(setup: Setup) -> None:
    liveness = watched(setup)
    setup.clock.now += 100 * STUCK
    assert where(liveness) is None
    answer = await setup.hold(item(4))
    assert where(liveness) is None
    setup.engine.gate.set()
    await answer
    setup.clock.now += 100 * STUCK
    assert where(liveness) is None


async def test_caller_churn_does_not_hide_a_hanging_engine(setup: Setup) -> None:
    liveness = watched(setup)
    first = await setup.hold(item(4))
    first.cancel()
    for _ in range(7):  # each waits ten seconds
        waiting = asyncio.create_task(setup.submit(item(4)))
        await asyncio.sleep(0)
        setup.clock.now += 10
        waiting.cancel()
        await asyncio.wait([waiting])
    assert where(liveness)


async def test_a_batch_that_ends_is_progress_while_others_wait(narrow: Setup) -> None:
    liveness = watched(narrow)
    narrow.engine.gate.clear()
    waiting = [asyncio.create_task(narrow.submit(item(4))) for _ in range(2)]
    await narrow.started()
    narrow.clock.now += STUCK - 1
    first, narrow.engine.gate = narrow.engine.gate, threading.Event()
    first.set()
    await narrow.started()
    narrow.clock.now += STUCK - 1
    assert where(liveness) is None
    narrow.engine.gate.set()
    await asyncio.gather(*waiting)


async def test_an_oversized_text_gets_proportionally_more_time(narrow: Setup) -> None:
    liveness = watched(narrow)
    answer = await narrow.hold(item(40))
    narrow.clock.now += 10 * STUCK
    assert where(liveness) is None
    narrow.clock.now += STUCK
    assert where(liveness)
    narrow.engine.gate.set()
    await answer


async def test_expired_requests_do_not_affect_liveness(setup: Setup) -> None:
    first = await setup.hold(item(4))
    late = asyncio.create_task(setup.submit(item(4), deadline=setup.clock.now))
    await asyncio.sleep(0)
    setup.scheduler.expire(setup.pending[-1])
    with pytest.raises(DeadlineExceeded):
        await late
    setup.engine.gate.set()
    await first
    setup.clock.now += 100 * STUCK
    assert setup.scheduler.heartbeat.stalled_seconds == 0


async def test_a_stalled_event_loop_is_detected_by_another_thread() -> None:
    clock = Clock()
    liveness = Liveness(STUCK, clock)
    clock.now += STUCK + LOOK_SECONDS
    assert where(liveness) is None
    clock.now += 1
    assert where(liveness) == "event loop"


async def test_health_watchers_are_notified_of_changes() -> None:
    still, told, clock = [0.0], list[bool](), Clock()
    liveness = Liveness(STUCK, clock)
    liveness.add("batches", lambda: still[0])
    looks = iter([0.0, STUCK + 1, STUCK + 2, 0.0, 0.0])

    async def pause(seconds: float) -> None:
        assert seconds == LOOK_SECONDS
        clock.now += seconds
        following = next(looks, None)
        if following is None:
            raise asyncio.CancelledError
        still[0] = following

    def tell(stuck: bool) -> None:
        told.append(stuck)

    with pytest.raises(asyncio.CancelledError):
        await liveness.watch(tell, pause)
    assert told == [True, False]


async def probe_answers(channel: Any) -> dict[str, bool]:
    stub = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    return {
        name: (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status == serving
        for name in NAMES
    }


async def test_each_health_service_name_reports_its_own_status(serve: Serve) -> None:
    async with serve(loaded=False) as service:

        def told(ready: bool, started: bool, alive: bool) -> dict[str, bool]:
            own = {"startup": started, "liveness": alive}
            return {name: own.get(name, ready) for name in NAMES}

        assert await probe_answers(service.channel) == told(ready=False, started=False, alive=True)
        service.readiness.set(serving=True)
        assert await probe_answers(service.channel) == told(ready=True, started=True, alive=True)
        service.readiness.set_stalled(True)
        assert await probe_answers(service.channel) == told(ready=False, started=True, alive=False)
        service.readiness.set_stalled(False)
        assert await probe_answers(service.channel) == told(ready=True, started=True, alive=True)
        service.readiness.set(serving=False)
        assert await probe_answers(service.channel) == told(ready=False, started=True, alive=True)


async def test_a_watcher_that_does_not_read_blocks_no_other() -> None:
    readiness = Readiness()
    server = build_health_server(readiness, lambda *_: None)
    port = server.bind("127.0.0.1:0")
    await server.start()
    target = f"127.0.0.1:{port}"
    async with closed_window(target) as deaf, grpc.aio.insecure_channel(target) as open_channel:
        channel: Any = open_channel
        for name in NAMES:
            request = health_pb2.HealthCheckRequest(service=name)
            deaf.ask("/grpc.health.v1.Health/Watch", request.SerializeToString())
        async with asyncio.timeout(30):
            while len(readiness._watchers) < len(NAMES):
                await asyncio.sleep(0.01)
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service="readiness")
        )
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        readiness.set(serving=True)
        assert (
            await asyncio.wait_for(watch.read(), 30)
        ).status == health_pb2.HealthCheckResponse.SERVING
        assert all((await probe_answers(channel)).values())
        watch.cancel()
    await asyncio.wait_for(server.stop(None), 30)
    assert not readiness._watchers


async def test_the_port_for_probes_serves_health_and_nothing_else() -> None:
    readiness = Readiness()
    readiness.set(serving=True)
    server = build_health_server(readiness, lambda *_: None)
    port = server.bind("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as open_channel:
        channel: Any = open_channel
        assert all((await probe_answers(channel)).values())
        for method in (
            "/headlight.v1.HeadlightService/GetModel",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ):
            call = channel.unary_unary(method)
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await call(b"")
            assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    await server.stop(None)
