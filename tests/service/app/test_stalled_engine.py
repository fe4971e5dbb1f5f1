"""A whole server with a hanging engine.

Every probe reports it, and recovers once the engine moves again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import urllib.error
import urllib.request

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight_service.app.lifecycle import EXIT_OK, Server
from tests.service.app.test_lifecycle import ANY, CONFIG, Log, log, own_signals, runtime
from tests.service.fakes import FakeRuntime

__all__ = ["log", "own_signals", "runtime"]  # fixtures
NOT_SERVING, SERVING = (
    health_pb2.HealthCheckResponse.NOT_SERVING,
    health_pb2.HealthCheckResponse.SERVING,
)


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return int(answer.status), str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.usefixtures("own_signals")
async def test_every_probe_reports_a_hanging_engine(runtime: FakeRuntime, log: Log) -> None:
    config = dataclasses.replace(CONFIG, stuck_seconds=1.0, health=ANY)
    life = asyncio.create_task(Server(config).serve())
    listening = await log.event("listening")
    await log.event("serving")

    async def told() -> tuple[dict[str, int], list[int], list[str]]:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{listening['health_port']}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            names = ("readiness", "startup", "liveness")
            found = {
                name: (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status
                for name in names
            }
        pages = [
            (await asyncio.to_thread(get, listening["metrics_port"], path))[0]
            for path in ("/livez", "/readyz")
        ]
        _, text = await asyncio.to_thread(get, listening["metrics_port"], "/metrics")
        gauges = [
            line
            for line in text.splitlines()
            if line.startswith(("headlight_ready ", "headlight_stuck "))
        ]
        return found, pages, gauges

    well = (
        dict.fromkeys(("readiness", "startup", "liveness"), SERVING),
        [200, 200],
        ["headlight_ready 1.0", "headlight_stuck 0.0"],
    )
    # After a pause of the machine, the event loop may be reported first.
    while await told() != well:
        pass
    runtime.engine.gate.clear()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{listening['grpc_port']}") as channel:
        call = pb_grpc.HeadlightServiceStub(channel).Encode(
            pb.EncodeRequest(inputs=[pb.Input(text="a")])
        )
        waiting = asyncio.ensure_future(call)
        assert (await log.event("stuck"))["where"] == "batches"
        stuck = {"readiness": NOT_SERVING, "startup": SERVING, "liveness": NOT_SERVING}
        assert await told() == (stuck, [503, 503], ["headlight_ready 0.0", "headlight_stuck 1.0"])
        runtime.engine.gate.set()
        await waiting
        await log.event("unstuck")
    while await told() != well:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    assert await life == EXIT_OK
