"""The gRPC server of a real process.

Idle crowds that do not delay new calls, and failures of the server itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight import Client
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight_service.app.health import MOST_WATCHERS
from tests.service.raw import ClosedWindow, closed_window
from tests.system.conftest import bundle_of
from tests.system.failing_grpc import ENDS
from tests.system.processes import Service, get

RESTARTS = "headlight_grpc_restarts_total"
TEXT = "remove a directory and everything in it"
REQUEST = pb.EncodeRequest(inputs=[pb.Input(text=TEXT)])
STREAMS, WATCHES, DEAF = 2000, 1000, 300
CONNECTIONS = 8
CALLERS = 8
HEALTH = health_pb2.HealthCheckRequest()


def channel(target: str, number: int = 0) -> Any:
    """Return a connection of its own, which no other channel shares."""
    return grpc.aio.insecure_channel(target, options=[("headlight.number", number)])


async def new_calls_are_answered(target: str) -> None:
    async with channel(target, 99) as fresh:
        stub: Any = pb_grpc.HeadlightServiceStub(fresh)
        for _ in range(20):
            assert (await stub.Encode(REQUEST, timeout=30)).items


async def test_idle_callers_do_not_delay_new_calls() -> None:
    with Service(bundle_of("docs-rope")) as service:
        channels = [channel(service.target, number) for number in range(1, CONNECTIONS + 1)]

        async def idle_stream(place: int) -> Any:
            stub: Any = pb_grpc.HeadlightServiceStub(channels[place % CONNECTIONS])
            call = stub.EncodeStream()
            await call.write(pb.EncodeStreamRequest(id="a", encode=REQUEST))
            assert (await call.read()).WhichOneof("frame") == "response"
            return call

        async def watch(place: int) -> Any:
            call: Any = health_pb2_grpc.HealthStub(channels[place % CONNECTIONS]).Watch(HEALTH)
            assert (await call.read()).status == health_pb2.HealthCheckResponse.SERVING
            return call

        crowd = await gathered(idle_stream, STREAMS)
        await new_calls_are_answered(service.target)
        crowd += await gathered(watch, WATCHES)
        await new_calls_are_answered(service.target)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await watch(0)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert f"{MOST_WATCHERS} callers watch already" in (refused.value.details() or "")
        async with closed_window(service.target) as one, closed_window(service.target) as other:
            ask_and_read_nothing([one, other])
            while (
                service.counted('grpc_server_started_total{grpc_method="EncodeStream"')
                < STREAMS + DEAF
            ):
                await asyncio.sleep(0.05)
            await new_calls_are_answered(service.target)
            health: Any = health_pb2_grpc.HealthStub(channels[0])
            assert (
                await health.Check(HEALTH, timeout=30)
            ).status == health_pb2.HealthCheckResponse.SERVING
        for call in crowd:
            call.cancel()
        for each in channels:
            await each.close()
        while service.counted("headlight_held_output_bytes") or watchers_left(service):
            await asyncio.sleep(0.05)


async def gathered(start: Any, count: int) -> list[Any]:
    """Make so many calls, a hundred started at a time."""
    found: list[Any] = []
    for begin in range(0, count, 100):
        found += await asyncio.gather(*map(start, range(begin, min(count, begin + 100))))
    return found


def ask_and_read_nothing(clients: list[ClosedWindow]) -> None:
    """Send requests on streams with a closed window: no byte of an answer can be sent."""
    message = pb.EncodeStreamRequest(id="a", encode=REQUEST).SerializeToString()
    for place in range(DEAF):
        clients[place % len(clients)].ask("EncodeStream", message)


def watchers_left(service: Service) -> float:
    started = service.counted('grpc_server_started_total{grpc_method="Watch"')
    return started - service.counted(
        tuple(
            f'grpc_server_handled_total{{grpc_code="{code.name}",grpc_method="Watch"'
            for code in grpc.StatusCode
        )
    )


class Probes:
    """All probes, polled repeatedly beside a real call."""

    def __init__(self, service: Service, health: str) -> None:
        self._service = service
        self._health = health
        self.lies: list[str] = []
        self.looks = 0

    def look(self) -> None:
        """Poll all; "well" on both sides of a call that finds no listener is a lie.

        Unless a server was lost and replaced in between, which takes less time than a poll may.
        """
        lost = self._service.counted(RESTARTS)
        before = self._well()
        answered = self._is_answering()
        after = self._well()
        self.looks += 1
        if answered is None and self._service.counted(RESTARTS) == lost:
            self.lies += [name for name in before if before[name] and after[name]]

    def _well(self) -> dict[str, bool]:
        return {"/readyz": self._ready(), "--health": self._check()}

    def _ready(self) -> bool:
        try:
            return get(self._service.http, "/readyz").strip() == "serving"
        except urllib.error.HTTPError:
            return False

    def _check(self) -> bool:
        with grpc.insecure_channel(self._health, options=[("headlight.look", self.looks)]) as fresh:
            try:
                answer = health_pb2_grpc.HealthStub(fresh).Check(HEALTH, timeout=10)
            except grpc.RpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    def _is_answering(self) -> bool | None:
        """Return True if a call on a new connection is answered; None without a listener."""
        with grpc.insecure_channel(
            self._service.target, options=[("headlight.look", self.looks)]
        ) as fresh:
            try:
                return bool(pb_grpc.HeadlightServiceStub(fresh).Encode(REQUEST, timeout=10).items)
            except grpc.RpcError as error:
                return None if "Connection refused" in str(error) else False


@pytest.mark.parametrize("seconds", [5])
def test_a_grpc_server_ending_every_second_fails_no_call(seconds: int) -> None:
    """Its replacement listens before a shipped client has run out of retries,
    and no probe lies meanwhile.
    """
    options = ("--health", "127.0.0.1:0")
    with Service(
        bundle_of("docs-rope"), *options, module=("tests.system.failing_grpc",)
    ) as service:
        listening = next(entry for entry in service.log if entry["event"] == "listening")
        health = f"127.0.0.1:{listening['health_port']}"
        stop, wrong, answers = threading.Event(), list[BaseException | str](), itertools.count()
        with Client(service.target) as client:
            expected = client.encode([TEXT])

        def call() -> None:
            with Client(service.target) as client:
                while not stop.is_set():
                    try:
                        if not np.allclose(client.encode([TEXT]), expected, atol=1e-6):
                            wrong.append("another vector")
                    except BaseException as error:
                        wrong.append(error)
                    next(answers)

        probes = Probes(service, health)
        with ThreadPoolExecutor(CALLERS) as pool:
            callers = [pool.submit(call) for _ in range(CALLERS)]
            begun, ended = time.monotonic(), 0
            while time.monotonic() < begun + seconds:
                if time.monotonic() >= begun + ended:
                    end_grpc(service.target)
                    ended += 1
                probes.look()
            stop.set()
            for caller in callers:
                caller.result()
        assert wrong == []
        assert probes.lies == []
        assert probes.looks > 3
        assert next(answers) > 10 * seconds
        restored = [entry for entry in service.log if entry["event"] == "grpc_restored"]
        assert len(restored) == service.counted(RESTARTS) == ended


def end_grpc(target: str) -> None:
    """End the thread that serves all calls, and see that it has ended."""
    with pytest.raises(grpc.RpcError):
        ask_for_the_end(target, 60)


def ask_for_the_end(target: str, seconds: float) -> None:
    with grpc.insecure_channel(
        target, options=[("headlight.at", str(time.monotonic_ns()))]
    ) as channel:
        fresh: Any = channel
        fresh.unary_unary(ENDS)(b"", timeout=seconds)


def test_a_health_server_that_ends_is_replaced() -> None:
    options = ("--health", "127.0.0.1:0")
    with Service(
        bundle_of("docs-rope"), *options, module=("tests.system.failing_grpc",)
    ) as service:
        listening = next(entry for entry in service.log if entry["event"] == "listening")
        health = f"127.0.0.1:{listening['health_port']}"
        end_grpc(health)
        assert service.wait_for("grpc_restored")["server"] == "health"
        with grpc.insecure_channel(health) as fresh:
            answer = health_pb2_grpc.HealthStub(fresh).Check(
                HEALTH, timeout=30, wait_for_ready=True
            )
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        assert get(service.http, "/readyz").strip() == "serving", (
            "calls were answered all the while"
        )


def test_three_grpc_server_failures_within_a_second_end_the_process() -> None:
    service = Service(bundle_of("docs-rope"), module=("tests.system.failing_grpc",))
    try:
        while service.process.poll() is None:
            with contextlib.suppress(grpc.RpcError):
                ask_for_the_end(service.target, 0.3)
        assert service.wait() == 1
        assert service.log[-1]["event"] != "stopped"
    finally:
        service.process.kill()
        service.wait()
        assert service.process.stderr is not None
        service.process.stderr.close()
