"""When the service may stop: nothing in flight, and nothing on its way."""

from __future__ import annotations

import asyncio
import time

from headlight.errors import Unavailable
from headlight_service.frontends.grpc.in_flight_calls import InFlight


async def test_it_is_quiet_only_when_for_so_long_nothing_has_come() -> None:
    in_flight = InFlight()
    in_flight.closed = True
    quiet = asyncio.create_task(in_flight.quiet(0.05, limit=60))
    last = 0.0
    for _ in range(20):
        await asyncio.sleep(0)
        last = time.monotonic()
        coming = in_flight.admit()  # what is not let in counts, too: who is refused often sends again
        coming.send(None)
        coming.close()
    await asyncio.wait_for(quiet, 30)
    assert time.monotonic() - last >= 0.05


async def test_nobody_is_refused_before_clients_know_better_than_to_come_again() -> None:
    in_flight = InFlight()
    await in_flight.admit()
    in_flight.closed = True
    coming = [asyncio.create_task(in_flight.admit()) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(each.done() for each in coming)
    in_flight.told.set()
    found = await asyncio.gather(*coming, return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in found)
    assert in_flight.count == 0


async def test_one_that_leaves_is_no_quiet() -> None:
    in_flight = InFlight()
    in_flight.enter()
    quiet = asyncio.create_task(in_flight.quiet(0.05, limit=60))
    await asyncio.sleep(0)
    last = time.monotonic()
    in_flight.leave()
    await asyncio.wait_for(quiet, 30)
    assert time.monotonic() - last >= 0.05


async def test_under_load_without_end_the_wait_for_quiet_ends() -> None:
    in_flight = InFlight()
    quiet = asyncio.create_task(in_flight.quiet(3600, limit=0.1))
    async with asyncio.timeout(30):
        while not quiet.done():
            in_flight.enter()
            in_flight.leave()
            await asyncio.sleep(0)
    await quiet
