"""Changing DNS names, and a failing name server: F13d."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import Callable, Collection

from headlight import AsyncClient
from headlight.errors import Unavailable
from tests.chaos.record import Outcome
from tests.chaos.traffic.background import Traffic, said
from tests.chaos.traffic.reference import reference
from tests.ports import free_port
from tests.system.conftest import bundle_of
from tests.system.names import NAME, Names
from tests.system.processes import Service

SERVFAIL, NXDOMAIN = 2, 3
OUTAGES: dict[str, int | None] = {"SERVFAIL": SERVFAIL, "NXDOMAIN": NXDOMAIN, "no answer": None}
OUTAGE_SECONDS = 4.0
AGE_SECONDS = 5  # of a connection, so that names are asked for again during each outage
# After which all calls go to the new address; names are asked for every 2 s at most.
HARD_SECONDS = 8.0
OPTIONS = ("--streams", "1", "--threads", "1", "--max-connection-age-seconds", str(AGE_SECONDS))
NEW_SECONDS = 15.0  # for a new client to be told that the name has no address


class Unsteady(Names):
    """Name server that can fail.

    Attributes:
        outage: an error code to answer with, None to stay silent; 0: none.
    """

    def __init__(self, addresses: Callable[[], Collection[str]]) -> None:
        super().__init__(addresses)
        self.outage: int | None = 0
        self.failed = 0

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self.outage == 0:
            super().datagram_received(data, addr)
            return
        self.failed += 1
        if self.outage is not None:
            flags = 0x8180 | self.outage
            self._transport.sendto(
                data[:2] + struct.pack(">HHHHH", flags, 1, 0, 0, 0) + data[12:], addr
            )


class Scene:
    """Services at loopback addresses, a name for them, and its server."""

    def __init__(
        self, names: Unsteady, told: list[str], open_services: contextlib.ExitStack
    ) -> None:
        self.names, self.told, self._services = names, told, open_services
        self.port = free_port()
        self.target = f"dns://127.0.0.1:{names.port}/{NAME}:{self.port}"
        self.running: dict[str, Service] = {}

    async def start(self, address: str) -> None:
        at = f"{address}:{self.port}"
        service = await asyncio.to_thread(Service, bundle_of("docs-rope"), *OPTIONS, grpc_at=at)
        self.running[address] = self._services.enter_context(service)

    async def stop(self, address: str) -> None:
        await asyncio.to_thread(self.running[address].__exit__, None, None, None)


async def moving() -> Outcome:
    """Make outages of the name server under load.

    Then move the name, with and without a time in which both addresses are valid.
    """
    known = await asyncio.to_thread(reference, bundle_of("docs-rope"))
    told = ["127.0.1.1"]
    names = await Unsteady.serve(lambda: told)
    assert isinstance(names, Unsteady)
    try:
        with contextlib.ExitStack() as services:
            scene = Scene(names, told, services)
            await scene.start("127.0.1.1")
            async with Traffic(scene.target, known, callers=3, allowed=("UNAVAILABLE",)) as traffic:
                new = await outages(scene, traffic)
                await scene.start("127.0.1.2")
                told[:] = ["127.0.1.1", "127.0.1.2"]
                await traffic.run(2 * AGE_SECONDS)
                told[:] = ["127.0.1.2"]
                await scene.stop("127.0.1.1")
                await traffic.run(AGE_SECONDS)
                await scene.start("127.0.1.3")
                told[:], moved = ["127.0.1.3"], time.monotonic()
                await scene.stop("127.0.1.2")
                await traffic.run(HARD_SECONDS)
                ended = time.monotonic()
                await traffic.run(2)
    finally:
        await names.close()
    return verdict(traffic, new, names.failed, moved, ended)


async def outages(scene: Scene, traffic: Traffic) -> dict[str, str]:
    """Fail in each way in turn; return the error of a client that started meanwhile."""
    new = {}
    for outage, code in OUTAGES.items():
        await traffic.run(1)
        scene.names.outage = code
        asked = asyncio.create_task(stranger(scene.target))
        await traffic.run(OUTAGE_SECONDS)
        new[outage] = await asked
        scene.names.outage = 0
    return new


def verdict(
    traffic: Traffic, new: dict[str, str], in_vain: int, moved: float, ended: float
) -> Outcome:
    problems = traffic.problems()
    failed = [call for call in traffic.calls if call.outcome != "OK"]
    hard = [call for call in failed if call.begun + call.seconds > moved]
    last = max((call.begun + call.seconds for call in hard), default=moved) - moved
    if len(failed) > len(hard):
        problems.append(f"{len(failed) - len(hard)} calls failed before the move without overlap")
    if last > ended - moved:
        problems.append(f"calls failed {last:.1f} s after the move without overlap")
    problems += [
        f"a new client, {outage}: {said}"
        for outage, said in new.items()
        if not said.startswith("Unavailable")
    ]
    if in_vain < len(OUTAGES) or not any(call.begun > ended for call in traffic.calls):
        problems.append(
            f"the name was asked for {in_vain} times during outages: this shows nothing"
        )
    return Outcome(
        f"{said(traffic.outcomes())}, none wrong; no call failed in the outages ({in_vain} failed "
        "lookups) or in the move with overlap; after the move without overlap, "
        f"calls ended as Unavailable for {last:.1f} s; new clients in the outages: "
        + ", ".join(f"{found} ({outage})" for outage, found in new.items()),
        {
            "outcomes": dict(traffic.outcomes()),
            "lookups_in_vain": in_vain,
            "hard_move_seconds": last,
            "new": new,
        },
        problems,
    )


async def stranger(target: str) -> str:
    """Return the error of a client that has no address yet."""
    begun = time.monotonic()
    # A unique option: channels with equal options share their resolver.
    async with AsyncClient(target, timeout=NEW_SECONDS, options=[("headlight.fault", 1)]) as client:
        try:
            await client.encode(["open a file"])
        except Unavailable:
            return f"Unavailable after {time.monotonic() - begun:.1f} s"
        except Exception as error:
            return f"{type(error).__name__} after {time.monotonic() - begun:.1f} s: {error}"[:200]
    return "answered"
