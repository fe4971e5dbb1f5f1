"""One life of a server within this process: the ends that need a broken model."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight.errors import BundleError
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from service import server as module
from service.batcher import FAILURES_BEFORE_PROBE
from service.config import Config
from service.parsing import Address
from service.server import EXIT_BUNDLE, EXIT_FAILED, EXIT_OK, Server
from tests.service.fakes import FakeRuntime

ANY = Address("127.0.0.1", 0)
CONFIG = Config(bundle=Path("none"), grpc=ANY, http=ANY, warm_up_lengths=(3, 4))


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Handlers of the test run come back afterwards."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    made = FakeRuntime()
    monkeypatch.setattr(module, "load", lambda config: made)
    return made


class Log(logging.Handler):
    """Waits for events."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._loop = asyncio.get_running_loop()
        self._records: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self._loop.call_soon_threadsafe(self._records.put_nowait, vars(record))

    async def event(self, name: str) -> dict[str, Any]:
        while (record := await self._records.get()).get("event") != name:
            pass
        return record


@pytest.fixture
async def log() -> AsyncIterator[Log]:
    """What the service logs from now on."""
    logger, handler = logging.getLogger("service"), Log()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


async def test_an_engine_that_does_not_recover_ends_the_process(runtime: FakeRuntime, log: Log) -> None:
    life = asyncio.create_task(Server(CONFIG).serve())
    port = (await log.event("listening"))["grpc_port"]
    await log.event("serving")
    assert runtime.warmed == (3, 4)
    runtime.engine.fail()
    runtime.engine.probe_fails = True
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        for _ in range(FAILURES_BEFORE_PROBE):
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.Encode(pb.EncodeRequest(inputs=[pb.Input(text="a")]))
        assert await life == EXIT_FAILED
    await log.event("batcher_died")


async def test_a_signal_ends_it_in_peace(runtime: FakeRuntime, log: Log) -> None:
    life = asyncio.create_task(Server(CONFIG).serve())
    await log.event("serving")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await life == EXIT_OK


async def test_while_loading_it_is_alive_and_not_serving_and_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    loading = asyncio.Event()
    loop, runtime = asyncio.get_running_loop(), FakeRuntime()
    runtime.engine.gate.clear()

    def load(config: Config) -> FakeRuntime:
        loop.call_soon_threadsafe(loading.set)
        assert runtime.engine.gate.wait(30)
        return runtime

    monkeypatch.setattr(module, "load", load)
    life = asyncio.create_task(Server(CONFIG).serve())
    port = (await log.event("listening"))["grpc_port"]
    await loading.wait()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING
    os.kill(os.getpid(), signal.SIGTERM)
    assert await life == EXIT_OK
    runtime.engine.gate.set()


async def test_a_refused_bundle_is_logged_with_its_file(monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    def load(config: Config) -> FakeRuntime:
        raise BundleError("was altered", "weights.bin")

    monkeypatch.setattr(module, "load", load)
    assert await Server(CONFIG).serve() == EXIT_BUNDLE
    assert (await log.event("bundle_refused"))["file"] == "weights.bin"
