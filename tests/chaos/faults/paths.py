"""Requests whose `:path` is not UTF-8, which stopped grpc.aio servers (docs/decisions)."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import Mapping

from headlight.results import Floats
from tests.chaos.http2 import hpack
from tests.chaos.http2.connection import START, Connection, connect
from tests.chaos.http2.frames import END_HEADERS, END_STREAM, HEADERS, frame
from tests.chaos.record import Outcome
from tests.chaos.traffic.neighbours import Neighbours, expected_vectors
from tests.chaos.traffic.probes import Ports, Probes, ports_of
from tests.system.conftest import bundle_of
from tests.system.processes import Service

BLOCK = hpack.block(hpack.request(hpack.POISON_PATH))
SECONDS = 60.0  # for one request to be answered; the test machine may be busy
AT_ONCE = 10  # streams of a connection: the health port takes 16
# A server that resets a stream so has done nothing for it, and the client sends it again (RFC 9113,
# section 8.7).
REFUSED_STREAM = 7
# How requests count that got no status: with the code of the reset added; and the rest.
RESET, HUNG_UP = 1000, 2000
PROBE_SECONDS = 0.1


class Offender:
    """Connection that sends only such requests. An async context manager.

    Attributes:
        statuses: how many requests ended in which grpc-status; -1 if it could not be read. RESET
            and HUNG_UP stand for those without one.
    """

    def __init__(self, target: str, context: ssl.SSLContext | None = None) -> None:
        self._target, self._context = target, context
        self._connection: Connection
        self._sent = self._wanted = 0

    async def __aenter__(self) -> Offender:
        self._connection = await connect(self._target, self._context)
        self._connection.writer.write(START)
        return self

    async def __aexit__(self, *ending: object) -> None:
        await self._connection.__aexit__(None, None, None)

    @property
    def statuses(self) -> Counter[int]:
        statuses = self._connection.statuses.copy()
        statuses.update(
            {
                RESET + code: n
                for code, n in self._connection.reset.items()
                if code != REFUSED_STREAM
            }
        )
        if statuses.total() < self._wanted:
            statuses[HUNG_UP] = self._wanted - statuses.total()
        return statuses

    async def send(self, count: int) -> None:
        """Send so many requests and wait until each has ended, or the server has closed."""
        connection = self._connection
        self._wanted += count
        while (left := self._wanted - self._ended) and not connection.hung_up.is_set():
            for _ in range(min(AT_ONCE, left)):
                stream, self._sent = 2 * self._sent + 1, self._sent + 1
                connection.writer.write(frame(HEADERS, END_STREAM | END_HEADERS, stream, BLOCK))
            async with asyncio.timeout(SECONDS):
                await connection.until_ended(self._sent)

    @property
    def _ended(self) -> int:
        """Return the number of requests that need not be sent again."""
        return len(self._connection.ended) - self._connection.reset[REFUSED_STREAM]


async def burst(
    target: str, count: int, connections: int, context: ssl.SSLContext | None = None
) -> Counter[int]:
    """Send `count` requests over so many connections, at most 64 of them open at once.

    Returns the statuses, fewer than requests if the server admitted none.
    """
    statuses, opening = Counter[int](), asyncio.Semaphore(64)

    async def one() -> None:
        with contextlib.suppress(OSError):
            async with opening, Offender(target, context) as offender:
                await offender.send(count // connections)
                statuses.update(offender.statuses)

    async with asyncio.TaskGroup() as offenders:
        for _ in range(connections):
            offenders.create_task(one())
    return statuses


async def steadily(target: str, count: int, every_seconds: float) -> Counter[int]:
    """Send requests at an interval, over one connection; return the statuses."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with Offender(target) as offender:
        for number in range(count):
            await asyncio.sleep(begun + number * every_seconds - loop.time())
            await offender.send(1)
        return offender.statuses


async def endure(
    ports: Ports, seconds: int, expected: Mapping[str, Floats]
) -> tuple[Outcome, Probes]:
    """Send one request a second to each gRPC port, while clients call and probes are watched."""
    text, vector = next(iter(expected.items()))
    probes, problems = Probes(ports, text, vector), list[str]()
    targets = [target for target in (ports.target, ports.health) if target is not None]
    async with Neighbours(ports.target, expected, options=[]) as neighbours:
        watching = asyncio.create_task(probes.run(PROBE_SECONDS))
        for statuses in await asyncio.gather(
            *(steadily(target, seconds, 1.0) for target in targets)
        ):
            if statuses[HUNG_UP]:
                problems.append(
                    f"{statuses[HUNG_UP]} of {seconds} requests were not answered: "
                    "the server hung up"
                )
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    if probes.failed:
        problems.append(f"{probes.failed} of {probes.looks} calls on fresh connections failed")
    seen = (
        f"{seconds} requests with a path that is not UTF-8, one a second on each port: "
        f"{neighbours.calls:,} calls of shipped clients answered and right, the slowest in "
        f"{1000 * neighbours.slowest:.0f} ms, {len(neighbours.lost)} not; {probes.looks} looks at "
        f"the probes, of which {len(probes.lies)} lied"
    )
    problems += neighbours.problems() + probes.problems()
    return Outcome(seen, {"requests": seconds}, problems), probes


async def endured(times: float = 1.0) -> Outcome:
    """Do so for so many times 5 seconds, to a service of its own."""
    bundle = bundle_of("docs-rope")
    with Service(bundle, "--health", "127.0.0.1:0") as service:
        found, _ = await endure(ports_of(service), int(times * 5), expected_vectors(bundle))
    return found
