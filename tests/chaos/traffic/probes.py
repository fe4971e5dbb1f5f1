"""Probes compared with a real call, all on fresh connections, so that a closed port shows."""

from __future__ import annotations

import asyncio
import dataclasses
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.results import Floats
from tests.chaos.traffic.neighbours import right
from tests.system.processes import Service

SECONDS = 10.0
FRESH = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]


@dataclasses.dataclass(frozen=True, slots=True)
class Ports:
    """Addresses and credentials of a service.

    Attributes:
        target: host:port of gRPC.
        http: host:port of HTTP.
        health: host:port of the health port; None if there is none.
        credentials: of TLS on the gRPC port.
        token: sent with the real call.
    """

    target: str
    http: str
    health: str | None = None
    credentials: grpc.ChannelCredentials | None = None
    token: str | None = None


def ports_of(service: Service, **more: Any) -> Ports:
    """Return the ports of a service in a process of its own; `more` are fields of Ports."""
    [listening] = [entry for entry in service.log if entry["event"] == "listening"]
    health = f"127.0.0.1:{listening['health_port']}" if "health_port" in listening else None
    return Ports(service.target, service.http, health, **more)


class Probes:
    """All probes, each compared with a real call.

    Attributes:
        looks: how many times they were compared.
        failed: how many of the real calls failed.
        lies: probe answers that the call contradicts.
    """

    def __init__(self, ports: Ports, text: str, expected: Floats) -> None:
        self.looks = 0
        self.failed = 0
        self.lies: list[str] = []
        self._ports = ports
        self._text, self._expected = text, expected

    async def run(self, every_seconds: float) -> None:
        """Compare until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(every_seconds)

    async def look(self) -> str:
        """Compare once; return the status of the real call: OK, WRONG or a status.

        A probe lies if it says the same before and after the call, and the call ends otherwise.
        """
        before = await self._ask()
        ended = await self._call()
        after = await self._ask()
        self.looks += 1
        self.failed += ended != "OK"
        for probe, ready in before.items():
            if ready is after[probe] and ready is not (ended == "OK"):
                told = "ready" if ready else "not ready"
                self.lies.append(f"{probe} says {told}, a call ends as {ended}")
        return ended

    def problems(self) -> list[str]:
        """Return the lies, each kind once; empty: none."""
        return [*dict.fromkeys(self.lies)]

    async def _ask(self) -> dict[str, bool]:
        asked = {
            "Health.Check": self._health(self._ports.target, self._ports.credentials),
            "/readyz": asyncio.to_thread(page_is_ok, self._ports.http, "/readyz"),
        }
        if self._ports.health is not None:
            asked["Health.Check of the health port"] = self._health(self._ports.health, None)
        return dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))

    @staticmethod
    async def _health(target: str, credentials: grpc.ChannelCredentials | None) -> bool:
        async with _channel(target, credentials) as channel:
            try:
                answer = await health_pb2_grpc.HealthStub(channel).Check(
                    health_pb2.HealthCheckRequest(), timeout=SECONDS
                )
            except grpc.aio.AioRpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)

    async def _call(self) -> str:
        token = self._ports.token
        metadata: Sequence[tuple[str, str]] = (
            [("authorization", f"Bearer {token}")] if token else []
        )
        request = pb.EncodeRequest(inputs=[pb.Input(text=self._text)])
        async with _channel(self._ports.target, self._ports.credentials) as channel:
            stub: Any = pb_grpc.HeadlightServiceStub(channel)
            try:
                answer = await stub.Encode(request, timeout=SECONDS, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                return error.code().name
        [vector] = np.frombuffer(answer.pooled[0].data, "<f4").reshape(answer.pooled[0].shape)
        return "OK" if right(vector, self._expected) else "WRONG"


def _channel(target: str, credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=FRESH)
    return grpc.aio.secure_channel(target, credentials, options=FRESH)


def page_is_ok(address: str, path: str) -> bool:
    """Return whether a page over HTTP is answered with 200."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:  # refused, or an answer that is an error
        return False
