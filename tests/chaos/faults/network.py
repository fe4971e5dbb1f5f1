"""A slow, lossy network between clients and service: F13e."""

from __future__ import annotations

import asyncio
import contextlib
import random

from tests.chaos.record import Outcome
from tests.chaos.traffic.background import Traffic, milliseconds, said
from tests.chaos.traffic.reference import reference
from tests.chaos.traffic.relay import Relay
from tests.system.conftest import bundle_of
from tests.system.processes import Service

DELAY_SECONDS = 0.05  # each way: a round trip of 100 ms
LOSS = 0.05  # of pieces, each of which then comes after a retransmission
AGAIN_SECONDS = 0.3  # TCP's least wait for it, and a round trip
PIECE = 1460  # bytes: a segment
SECONDS = 20.0


class SlowRelay(Relay):
    """Relay that delays bytes in order, as TCP does over such a network.

    An async context manager.

    Attributes:
        lost: pieces that had to be sent again.
        passed: all pieces.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.lost, self.passed = 0, 0
        self._chance = random.Random(1)

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        loop, due = asyncio.get_running_loop(), 0.0
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                when, piece = await waiting.get()
                await asyncio.sleep(when - loop.time())
                sink.write(piece)
                await sink.drain()
                if not piece:
                    sink.close()
                    return

        sending = asyncio.create_task(send())
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            piece = b"-"
            while piece:
                piece = await source.read(PIECE)
                lost = self._chance.random() < LOSS
                self.lost, self.passed = self.lost + lost, self.passed + 1
                due = max(due, loop.time() + DELAY_SECONDS + lost * AGAIN_SECONDS)
                waiting.put_nowait((due, piece))
            await sending
        sending.cancel()
        sink.close()


async def slow() -> Outcome:
    """Make calls of all kinds over it."""
    known = await asyncio.to_thread(reference, bundle_of("docs-rope"))
    with Service(bundle_of("docs-rope")) as service:
        async with (
            SlowRelay(service.target) as relay,
            Traffic(relay.target, known, callers=6, timeout=30) as traffic,
        ):
            await traffic.run(SECONDS)
            await traffic.__aexit__(None, None, None)
    problems = traffic.problems()
    if len(traffic.calls) < 50 or relay.lost < 20:
        problems.append(
            f"{len(traffic.calls)} calls and {relay.lost} lost pieces: this shows nothing"
        )
    return Outcome(
        (
            f"{said(traffic.outcomes())}, none wrong; {milliseconds(traffic.calls)}; "
            f"{relay.lost:,} of {relay.passed:,} segments sent again"
        ),
        {"outcomes": dict(traffic.outcomes()), "lost": relay.lost, "segments": relay.passed},
        problems,
    )
