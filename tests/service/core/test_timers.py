"""Timers: called once, in order, on a thread of their own, and never after cancellation."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from headlight_service.core.timers import Timers

LATER = 1e6  # seconds; no test waits that long


@pytest.fixture
def timers() -> Iterator[Timers]:
    made = Timers()
    yield made
    made.close()


class Called:
    """Recorder of calls and their threads."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.threads: set[str] = set()
        self._done = threading.Semaphore(0)

    def __call__(self, name: str = "") -> None:
        self.names.append(name)
        self.threads.add(threading.current_thread().name)
        self._done.release()

    def wait(self, count: int = 1) -> None:
        for _ in range(count):
            assert self._done.acquire(timeout=30)


def settled(timers: Timers) -> None:
    """Wait until the thread has handled all timers that were due when this was called."""
    passed = threading.Event()
    timers.call_at(time.monotonic(), passed.set)
    assert passed.wait(30)


def test_a_timer_fires_on_the_timer_thread_and_not_early(timers: Timers) -> None:
    called, begin = Called(), time.monotonic()
    timers.call_at(begin + 0.02, called)
    called.wait()
    assert time.monotonic() >= begin + 0.02
    assert called.threads == {"timers"}


def test_timers_fire_in_order_of_due_time(timers: Timers) -> None:
    called, now = Called(), time.monotonic()
    timers.call_at(now + LATER, called)  # the thread waits for it
    for place in (3, 1, 2):
        timers.call_at(now + place / 100, lambda place=place: called(str(place)))  # type: ignore[misc]
    called.wait(3)
    assert called.names == ["1", "2", "3"]


def test_timers_due_at_one_time_fire_in_insertion_order(timers: Timers) -> None:
    called, when = Called(), time.monotonic() + 0.01
    for place in range(20):
        timers.call_at(when, lambda place=place: called(str(place)))  # type: ignore[misc]
    called.wait(20)
    assert called.names == [str(place) for place in range(20)]


def test_a_cancelled_timer_does_not_fire_and_is_released_at_once(timers: Timers) -> None:
    class Payload:
        def act(self) -> None:
            pytest.fail("it was cancelled")

    payload = Payload()
    held = weakref.ref(payload)
    timer = timers.call_at(time.monotonic() + LATER, payload.act)
    del payload
    assert held() is not None
    timer.cancel()
    timer.cancel()  # a second time has no effect
    assert held() is None


def test_a_fired_timer_is_released_and_cannot_be_cancelled(timers: Timers) -> None:
    class Payload:
        def __init__(self) -> None:
            self.done = threading.Event()

        def act(self) -> None:
            self.done.set()

    payload = Payload()
    done, held = payload.done, weakref.ref(payload)
    timer = timers.call_at(time.monotonic(), payload.act)
    del payload
    assert done.wait(30)
    settled(timers)
    assert held() is None
    timer.cancel()
    assert timers.due == []


def test_a_callback_may_create_and_cancel_timers(timers: Timers) -> None:
    called = Called()

    def first() -> None:
        gone = timers.call_at(time.monotonic(), lambda: called("gone"))
        timers.call_at(time.monotonic(), lambda: called("second"))
        gone.cancel()

    timers.call_at(time.monotonic(), first)
    called.wait()
    settled(timers)
    assert called.names == ["second"]


def test_a_past_time_fires_now_and_infinity_never(timers: Timers) -> None:
    called = Called()
    never = timers.call_at(math.inf, lambda: called("never"))
    timers.call_at(-1.0, lambda: called("now"))
    called.wait()
    settled(timers)
    assert called.names == ["now"]
    never.cancel()


def test_cancelled_timers_are_not_retained(timers: Timers) -> None:
    stay = [timers.call_at(time.monotonic() + LATER, lambda: None) for _ in range(3)]
    for _ in range(6400):
        timers.call_at(time.monotonic() + LATER, lambda: None).cancel()
        assert timers.due == stay


def test_cancelling_one_of_several_simultaneous_timers_drops_only_that(timers: Timers) -> None:
    when = time.monotonic() + LATER
    first, second, third = (timers.call_at(when, lambda: None) for _ in range(3))
    second.cancel()
    assert timers.due == [first, third]


def test_closing_ends_the_single_timer_thread() -> None:
    before = set(threading.enumerate())
    timers, called = Timers(), Called()
    for _ in range(3):
        timers.call_at(time.monotonic() + LATER, called)
    [thread] = set(threading.enumerate()) - before
    assert thread.daemon
    timers.close()
    thread.join(30)
    assert not thread.is_alive()
    timers.call_at(time.monotonic(), called)
    assert called.names == []


def test_a_failing_callback_is_logged_and_stops_no_other(
    timers: Timers, caplog: pytest.LogCaptureFixture
) -> None:
    called, now = Called(), time.monotonic()

    def fail() -> None:
        raise ValueError("a text of a caller")

    timers.call_at(now, fail)
    timers.call_at(now + 1e-3, called)
    called.wait()
    assert [record.event for record in caplog.records] == ["call_failed"]  # type: ignore[attr-defined]
    assert "a text of a caller" not in str([vars(record) for record in caplog.records])


def test_concurrent_timers_fire_exactly_once_unless_cancelled(timers: Timers) -> None:
    called, begin = Called(), threading.Barrier(4)

    def make(own: int) -> None:
        begin.wait(30)
        for place in range(300):
            name = f"{own}.{place}"
            timers.call_at(time.monotonic() + place % 7 / 1000, lambda name=name: called(name))  # type: ignore[misc]
            if place % 3 == 0:
                late = timers.call_at(time.monotonic() + LATER, lambda: called("cancelled"))
                late.cancel()

    threads = [threading.Thread(target=make, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    called.wait(1200)
    settled(timers)
    assert sorted(called.names) == sorted(
        f"{own}.{place}" for own in range(4) for place in range(300)
    )
