"""The lifecycle of a server within this process: failures that need a broken model."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight.description import Parity
from headlight.errors import BundleError, DeviceLost, EngineError
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight_service.app import model_versions as module
from headlight_service.app.health import LIVENESS, READY_NAMES, STARTUP
from headlight_service.app.lifecycle import (
    EXIT_BUNDLE,
    EXIT_CONFIG,
    EXIT_FAILED,
    EXIT_OK,
    Server,
)
from headlight_service.app.model_identity import Identity
from headlight_service.app.model_loader import ModelLoader
from headlight_service.app.model_preparation import ExportFailed
from headlight_service.app.server_setup import GRPC
from headlight_service.config.option_types import Address
from headlight_service.config.options import Config
from headlight_service.core.scheduler.engine_health import FAILURES_BEFORE_PROBE
from headlight_service.frontends.grpc.transport.grpc_server import Change
from tests.ports import free_port
from tests.service.fakes import FakeRuntime

ANY = Address("127.0.0.1", 0)
CONFIG = Config(bundle=Path("none"), grpc=ANY, metrics=ANY, warm_up_lengths=(3, 4))


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """Restore the signal handlers of the test run afterwards."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> FakeRuntime:
    made = FakeRuntime()
    monkeypatch.setattr(module, "load", lambda config, steps: made)
    return made


class Log(logging.Handler):
    """Log records, with a wait for events."""

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
    """Return the log records from now on."""
    logger, handler = logging.getLogger("headlight_service"), Log()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.setLevel(level)
    logger.removeHandler(handler)


async def test_an_engine_that_does_not_recover_ends_the_process(
    runtime: FakeRuntime, log: Log
) -> None:
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


async def test_a_server_whose_grpc_is_lost_is_not_ready_until_it_is_restored(
    runtime: FakeRuntime, log: Log
) -> None:
    server = Server(CONFIG)
    life = asyncio.create_task(server.serve())
    await log.event("serving")
    for change in (Change.LOST, Change.RESTORED):
        server._on_grpc(GRPC, change)
        assert server._readiness.serving is (change is Change.RESTORED)
    os.kill(os.getpid(), signal.SIGTERM)
    assert await life == EXIT_OK


async def test_a_tokenizer_that_hangs_stalls_the_process(runtime: FakeRuntime, log: Log) -> None:
    server = Server(CONFIG)
    life = asyncio.create_task(server.serve())
    await log.event("serving")
    heartbeat = server._tokenizers.heartbeats["interactive"]
    heartbeat.work, heartbeat.moved = 1, heartbeat.clock() - CONFIG.stuck_seconds - 1
    assert server._liveness.stalled_at == "tokenizer"
    heartbeat.work = 0
    os.kill(os.getpid(), signal.SIGTERM)
    assert await life == EXIT_OK


async def test_the_proof_shown_is_the_worst_of_the_provider_in_use(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    rows = [("pooled", "cpu", 1e-7), ("pooled", "cpu", 2e-7), ("pooled", "cuda", 9e-7)]
    rows.append(("attention", "cpu", 8e-7))
    parity = tuple(Parity(output, on, "fp32", error, 1e-5) for output, on, error in rows)
    monkeypatch.setattr(module, "load", lambda config, steps: FakeRuntime(parity=parity))
    life = asyncio.create_task(Server(CONFIG).serve())
    shown = (await log.event("serving"))["text"]
    assert "max |Δ| 2.0e-07 from PyTorch, limit 1.0e-05" in shown
    os.kill(os.getpid(), signal.SIGTERM)
    assert await life == EXIT_OK


async def test_a_loading_server_is_alive_takes_no_calls_and_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    """A replica that accepts connections is sent calls.

    Refusing them would cost callers their retries.
    """
    loading = asyncio.Event()
    loop, runtime = asyncio.get_running_loop(), FakeRuntime()
    runtime.engine.gate.clear()

    def load(config: Config, steps: object) -> FakeRuntime:
        loop.call_soon_threadsafe(loading.set)
        assert runtime.engine.gate.wait(30)
        return runtime

    monkeypatch.setattr(module, "load", load)
    config = dataclasses.replace(CONFIG, health=Address("127.0.0.1", 0))
    life = asyncio.create_task(Server(config).serve())
    ports = await log.event("listening")
    await loading.wait()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", ports["grpc_port"])
    async with grpc.aio.insecure_channel(f"127.0.0.1:{ports['health_port']}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        listed = (await stub.List(health_pb2.HealthListRequest())).statuses
        told = {
            name: (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status
            for name in listed
        }
    status = health_pb2.HealthCheckResponse
    assert told == dict.fromkeys((*READY_NAMES, STARTUP), status.NOT_SERVING) | {
        LIVENESS: status.SERVING
    }
    assert told == {name: answer.status for name, answer in listed.items()}
    os.kill(os.getpid(), signal.SIGTERM)
    assert await life == EXIT_OK
    runtime.engine.gate.set()


async def test_ctrl_c_that_ends_an_export_exits_as_interrupted(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    server = Server(CONFIG)

    async def prepare(config: Config, environ: object, steps: object) -> Path:
        server._on_signal(signal.SIGINT)  # a terminal sends it to the service and to the export
        raise ExportFailed("the export ended with exit code -2")

    monkeypatch.setattr(module, "prepare", prepare)
    assert await server.serve() == 130
    await log.event("stopped")


@pytest.mark.parametrize("option", ["grpc", "metrics", "api", "health"])
async def test_an_unusable_address_is_reported_before_loading(
    option: str, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    monkeypatch.setattr(module, "load", lambda config, steps: pytest.fail("loaded in vain"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        used = Address("127.0.0.1", other.getsockname()[1])
        unknown = Address("::1%no-such", 52051)  # needs no query whether this interface exists
        for address, code, event, problem in (
            (used, EXIT_FAILED, "cannot_listen", f"--{option} {used} is in use; "),
            (unknown, EXIT_CONFIG, "bad_option", f"--{option} is {unknown}; the host is not found"),
        ):
            config = dataclasses.replace(CONFIG, **{"api": None, option: address})  # type: ignore[arg-type]
            assert await Server(config).serve() == code
            assert (await log.event(event))["msg"].startswith(problem)


async def test_a_port_taken_during_loading_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, log: Log, runtime: FakeRuntime
) -> None:
    port, others = free_port(), list[socket.socket]()

    def load(config: Config, steps: object) -> FakeRuntime:
        other = socket.socket()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        others.append(other)
        return runtime

    monkeypatch.setattr(module, "load", load)
    config = dataclasses.replace(CONFIG, grpc=Address("127.0.0.1", port))
    assert await Server(config).serve() == EXIT_FAILED
    await log.event("cannot_listen")
    others[0].close()


async def test_a_refused_bundle_is_logged_with_its_file(
    monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    def load(config: Config, steps: object) -> FakeRuntime:
        raise BundleError("was altered", "weights.bin")

    monkeypatch.setattr(module, "load", load)
    assert await Server(CONFIG).serve() == EXIT_BUNDLE
    assert (await log.event("bundle_refused"))["file"] == "weights.bin"


async def test_a_failed_warm_up_is_not_reported_as_a_bug(
    monkeypatch: pytest.MonkeyPatch, runtime: FakeRuntime, log: Log
) -> None:
    def fail(lengths: object) -> None:
        raise EngineError("the model failed; see error id 123 in the server's log")

    monkeypatch.setattr(runtime, "warm_up", fail)
    assert await Server(CONFIG).serve() == EXIT_BUNDLE
    message = (await log.event("bundle_refused"))["msg"]
    assert message.startswith("the first batches failed: the model failed; see error id 123")
    assert message.endswith("lower --warm-up-lengths")


async def test_an_error_while_looking_for_changed_models_ends_no_watch(
    monkeypatch: pytest.MonkeyPatch, runtime: FakeRuntime, log: Log
) -> None:
    before: Identity = ("before",)
    looks: list[Identity | Exception] = [before, RuntimeError("a bug"), ("now",)]

    def state(loader: ModelLoader) -> Identity:
        look = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(look, Exception):
            raise look
        return look

    monkeypatch.setattr(ModelLoader, "state", state)
    life = asyncio.create_task(Server(dataclasses.replace(CONFIG, watch_models=0.001)).serve())
    await log.event("watch_failed")
    await log.event("reloading")
    os.kill(os.getpid(), signal.SIGTERM)
    assert await life == EXIT_OK


async def test_device_loss_while_draining_is_a_failed_exit(runtime: FakeRuntime, log: Log) -> None:
    life = asyncio.create_task(Server(CONFIG).serve())
    port = (await log.event("listening"))["grpc_port"]
    await log.event("serving")
    runtime.engine.gate.clear()
    runtime.engine.broken = DeviceLost("the GPU failed")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = pb_grpc.HeadlightServiceStub(channel).Encode(
            pb.EncodeRequest(inputs=[pb.Input(text="a")])
        )
        assert await asyncio.to_thread(runtime.engine.started.acquire, True, 30)
        os.kill(os.getpid(), signal.SIGTERM)
        await log.event("draining")
        runtime.engine.gate.set()
        with pytest.raises(grpc.aio.AioRpcError):
            await call
        assert await life == EXIT_FAILED
    await log.event("batcher_died")
