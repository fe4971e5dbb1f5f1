"""Order of work on the tokenizer threads, and withdrawal while waiting."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator

import pytest

from headlight.spec import PRIORITIES, Priority
from headlight_service.core.tokenizer_threads import TokenizerThreads
from tests.service.core.pipelines import until

SOON, BULK = PRIORITIES


class Payload:
    """Some work, held until released."""

    def __init__(self, priority: Priority = SOON, order: list[Payload] | None = None) -> None:
        self.priority: Priority = priority
        self.begun, self.may_end, self.done = (
            threading.Event(),
            threading.Event(),
            threading.Event(),
        )
        self._order = order

    def work(self) -> None:
        if self._order is not None:
            self._order.append(self)
        self.begun.set()
        assert self.may_end.wait(30)
        self.done.set()

    def end(self) -> None:
        self.may_end.set()
        assert self.done.wait(30)


@pytest.fixture
def one() -> Iterator[TokenizerThreads]:
    """Return a single thread."""
    threads = TokenizerThreads(1, "test")
    yield threads
    threads.close()


def submitted(threads: TokenizerThreads, *payloads: Payload) -> None:
    for each in payloads:
        threads.submit(each.work, each.priority)


@pytest.mark.parametrize(("count", "of_bulk"), [(1, 1), (2, 1), (4, 3)])
def test_interactive_waits_for_no_bulk(count: int, of_bulk: int) -> None:
    threads = TokenizerThreads(count, "test")
    bulk, wanted = [Payload(BULK) for _ in range(8)], Payload()
    submitted(threads, *bulk)
    for each in bulk[:of_bulk]:
        assert each.begun.wait(30)
    submitted(threads, wanted)
    assert wanted.begun.wait(30)
    wanted.end()
    assert [each.begun.is_set() for each in bulk] == [True] * of_bulk + [False] * (8 - of_bulk)
    for each in (*bulk, wanted):
        each.may_end.set()
    for each in (*bulk, wanted):
        assert each.done.wait(30)
    threads.close()


def test_withdrawn_work_is_released_at_once_and_the_next_takes_its_turn(
    one: TokenizerThreads,
) -> None:
    first, leaves, next_one = Payload(), Payload(), Payload()
    submitted(one, first, leaves, next_one)
    assert first.begun.wait(30)
    assert one.withdraw(leaves.work)
    assert not one.withdraw(leaves.work), "it waits no longer"
    held = weakref.ref(leaves)
    del leaves
    assert held() is None
    first.may_end.set()
    assert next_one.begun.wait(30)
    next_one.end()


def test_started_work_cannot_be_withdrawn(one: TokenizerThreads) -> None:
    first = Payload()
    submitted(one, first)
    assert first.begun.wait(30)
    assert not one.withdraw(first.work)
    first.end()


def test_the_heartbeat_advances_with_work_and_stops_if_work_stalls(one: TokenizerThreads) -> None:
    now = 0.0
    one.heartbeats[SOON].clock = lambda: now
    assert one.stalled_seconds == 0
    first, second, third = Payload(), Payload(), Payload()
    submitted(one, first, second)
    assert first.begun.wait(30)
    now = 5.0
    assert one.stalled_seconds == 5
    first.end()
    assert second.begun.wait(30)
    assert one.stalled_seconds == 0
    now = 7.0
    submitted(one, third)
    assert one.withdraw(third.work)
    assert one.stalled_seconds == 2, "to give up is no sign of life"
    second.end()
    now = 9.0
    until(lambda: not one.heartbeats[SOON].work, "the work is done")
    assert one.stalled_seconds == 0, "there is nothing to do"


def test_finished_work_is_released_at_once(one: TokenizerThreads) -> None:
    payload, behind = Payload(), Payload()
    submitted(one, payload)
    assert payload.begun.wait(30)
    held = weakref.ref(payload)
    submitted(one, behind)
    payload.may_end.set()
    del payload
    assert behind.begun.wait(30)
    assert held() is None, "the thread has gone on to the next"
    behind.end()
