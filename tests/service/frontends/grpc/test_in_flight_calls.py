"""Conditions for shutdown: no call in flight, and none on its way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

import pytest

from headlight.errors import Unavailable
from headlight_service.frontends.grpc.in_flight_calls import InFlight
from headlight_service.frontends.grpc.transport.grpc_call import Call
from tests.service.calls import until


class FakeCall:
    """Call that ends when a test says so."""

    def __init__(self) -> None:
        self.acts: list[Callable[[], object]] = []

    def end(self) -> None:
        for act in self.acts:
            act()


@pytest.fixture
def in_flight() -> InFlight:
    return InFlight()


def entered(in_flight: InFlight) -> FakeCall:
    """Return an admitted call."""
    call = FakeCall()
    in_flight.enter(cast(Call, call))
    return call


async def test_quiet_requires_a_period_without_calls(in_flight: InFlight) -> None:
    in_flight.closed = True
    in_flight.announced.set()
    quiet = asyncio.create_task(in_flight.quiet(0.05, limit=60))
    last = 0.0
    for _ in range(20):
        await asyncio.sleep(0)
        last = time.monotonic()
        assert not in_flight.admits(), "a refused call counts, too: its client often sends again"
    await asyncio.wait_for(quiet, 30)
    assert time.monotonic() - last >= 0.05


@pytest.mark.parametrize("late", [True, False], ids=["late message", "disconnect"])
async def test_a_refused_or_ended_call_resets_the_quiet_period(
    in_flight: InFlight, late: bool
) -> None:
    call = entered(in_flight)
    if late:
        assert in_flight.admits()
        in_flight.closed = True
        in_flight.announced.set()
    quiet = asyncio.create_task(in_flight.quiet(0.05, limit=60))
    await asyncio.sleep(0)
    last = time.monotonic()
    if late:
        with pytest.raises(Unavailable):
            entered(in_flight)
    else:
        call.end()
    await asyncio.wait_for(quiet, 30)
    assert time.monotonic() - last >= 0.05


async def test_no_call_is_refused_before_clients_know_of_the_drain(in_flight: InFlight) -> None:
    assert in_flight.admits()
    in_flight.closed = True
    coming = [asyncio.create_task(asyncio.to_thread(in_flight.admits)) for _ in range(3)]
    for _ in range(5):
        await asyncio.sleep(0)
    assert not any(each.done() for each in coming)
    in_flight.announced.set()
    assert await asyncio.gather(*coming) == [False] * 3
    assert in_flight.count == 0


async def test_a_message_before_clients_know_of_the_drain_is_admitted(in_flight: InFlight) -> None:
    in_flight.closed = True
    call = entered(in_flight)
    in_flight.announced.set()
    assert in_flight.count == 1, "the end waits for it"
    call.end()
    assert in_flight.count == 0


async def test_shutdown_waits_for_calls_to_end(in_flight: InFlight) -> None:
    call = entered(in_flight)
    idle = asyncio.create_task(in_flight.idle())
    await asyncio.sleep(0)
    assert in_flight.count == 1
    assert not idle.done()
    call.end()
    await asyncio.wait_for(idle, 30)
    assert in_flight.count == 0


async def test_an_unread_refusal_delays_shutdown_only_briefly(
    in_flight: InFlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headlight_service.frontends.grpc.in_flight_calls.REFUSED_SECONDS", 0.05)
    call = entered(in_flight)
    begun = time.monotonic()
    in_flight.refused(cast(Call, call))
    await asyncio.wait_for(in_flight.idle(), 30)
    assert time.monotonic() - begun >= 0.05
    call.end()
    assert in_flight.count == 0


async def test_the_wait_for_quiet_is_bounded_under_endless_load(in_flight: InFlight) -> None:
    quiet = asyncio.create_task(in_flight.quiet(3600, limit=0.1))

    def load() -> bool:
        entered(in_flight).end()
        return quiet.done()

    await until(load)
    await quiet
