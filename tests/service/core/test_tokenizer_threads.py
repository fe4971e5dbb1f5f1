"""Order of work on the tokenizer threads, and withdrawal while waiting."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headlight.spec import PRIORITIES, Priority
from headlight_service.core.scheduler.batch_policy import BULK_TURN
from headlight_service.core.tokenizer_threads import TokenizerThreads

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


class SteppedThreads:
    """Tokenizer threads that the test advances by hand.

    The test also decides when a piece of work ends.
    """

    def __init__(self, count: int) -> None:
        self.threads = TokenizerThreads(count, "test")
        self.threads.close()
        self.inside: list[Payload] = []
        self.waiting: list[Payload] = []
        self._begun = list[tuple[Payload, Callable[[], None]]]()
        # Runs the work that is ended here.
        self.threads._workers.put = self._begin  # type: ignore[method-assign]

    def _begin(self, work: Callable[[], None]) -> None:
        assert isinstance(work, functools.partial)
        [payload] = [each for each in self.waiting if each.work in work.args]
        self.waiting.remove(payload)
        self.inside.append(payload)
        self._begun.append((payload, work))

    def submit(self, priority: Priority) -> Payload:
        payload = Payload(priority)
        payload.may_end.set()
        self.waiting.append(payload)
        self.threads.submit(payload.work, priority)
        return payload

    def withdraw(self, payload: Payload) -> bool:
        withdrawn = self.threads.withdraw(payload.work, payload.priority)
        assert withdrawn == (payload in self.waiting)
        if withdrawn:
            self.waiting.remove(payload)
        return withdrawn

    def end(self, payload: Payload) -> None:
        [run] = [run for each, run in self._begun if each is payload]
        self.inside.remove(payload)
        run()

    def count(self, priority: Priority) -> int:
        return [each.priority for each in self.inside].count(priority)


@pytest.mark.parametrize(("count", "of_bulk"), [(1, 1), (2, 1), (4, 3)])
def test_one_of_several_threads_is_reserved_for_interactive(count: int, of_bulk: int) -> None:
    threads = TokenizerThreads(count, "test")
    bulk, wanted = [Payload(BULK) for _ in range(8)], Payload()
    submitted(threads, *bulk)
    for each in bulk[:of_bulk]:
        assert each.begun.wait(30)
    submitted(threads, wanted)
    if count > 1:
        assert wanted.begun.wait(30)
        wanted.end()
    assert [each.begun.is_set() for each in bulk] == [True] * of_bulk + [False] * (8 - of_bulk)
    assert wanted.begun.is_set() == (count > 1)
    for each in (*bulk, wanted):
        each.may_end.set()
    for each in (*bulk, wanted):
        assert each.done.wait(30)
    threads.close()


def test_on_one_thread_interactive_goes_first_without_starving_bulk(
    one: TokenizerThreads,
) -> None:
    order = list[Payload]()
    current, bulk = Payload(SOON, order), Payload(BULK, order)
    waiting = [Payload(SOON, order) for _ in range(2 * BULK_TURN)]
    submitted(one, current, bulk, *waiting)
    everyone = [current, bulk, *waiting]
    assert current.begun.wait(30)
    assert order == [current]
    for each in everyone:
        each.may_end.set()
    for each in everyone:
        assert each.done.wait(30)
    assert order.index(bulk) == BULK_TURN
    assert [each for each in order if each is not bulk] == [current, *waiting]


def test_withdrawn_work_is_released_at_once_and_the_next_takes_its_turn(
    one: TokenizerThreads,
) -> None:
    first, leaves, next_one = Payload(), Payload(BULK), Payload(BULK)
    submitted(one, first, leaves, next_one)
    assert first.begun.wait(30)
    assert one.withdraw(leaves.work, BULK)
    assert not one.withdraw(leaves.work, BULK), "it waits no longer"
    held = weakref.ref(leaves)
    del leaves
    assert held() is None
    first.may_end.set()
    assert next_one.begun.wait(30)
    assert (one._free, one._free_to_bulk) == (0, 0)
    next_one.end()


def test_started_work_cannot_be_withdrawn(one: TokenizerThreads) -> None:
    first = Payload()
    submitted(one, first)
    assert first.begun.wait(30)
    assert not one.withdraw(first.work, SOON)
    first.end()


def test_equal_work_of_two_requests_is_kept_apart() -> None:
    """Bound methods of different objects, as each request's step is one."""
    stepped = SteppedThreads(1)
    first, second = stepped.submit(SOON), stepped.submit(SOON)
    assert first.work != second.work
    assert stepped.withdraw(second)
    stepped.end(first)
    assert stepped.inside == []


def test_the_heartbeat_advances_with_work_and_stops_if_work_stalls() -> None:
    stepped = SteppedThreads(1)
    now = 0.0
    stepped.threads.heartbeat.clock = lambda: now
    assert stepped.threads.heartbeat.stalled_seconds == 0
    first, second = stepped.submit(SOON), stepped.submit(SOON)
    now = 5.0
    assert stepped.threads.heartbeat.stalled_seconds == 5
    stepped.end(first)
    assert stepped.threads.heartbeat.stalled_seconds == 0, "the second was begun"
    now = 7.0
    assert stepped.threads.heartbeat.stalled_seconds == 2
    third = stepped.submit(SOON)
    stepped.withdraw(third)
    assert stepped.threads.heartbeat.stalled_seconds == 2, "to give up is no sign of life"
    stepped.end(second)
    now = 9.0
    assert stepped.threads.heartbeat.stalled_seconds == 0, "there is nothing to do"


@given(st.integers(1, 4), st.data())
def test_no_thread_is_lost_or_assigned_twice(count: int, data: st.DataObject) -> None:
    stepped, everyone = SteppedThreads(count), list[Payload]()
    for _ in range(data.draw(st.integers(0, 30))):
        what = data.draw(
            st.sampled_from(["soon", "bulk", "end", "withdraw"] if everyone else ["soon", "bulk"])
        )
        if what in ("soon", "bulk"):
            everyone.append(stepped.submit(SOON if what == "soon" else BULK))
        elif what == "withdraw":
            stepped.withdraw(data.draw(st.sampled_from(everyone)))
        elif stepped.inside:
            stepped.end(data.draw(st.sampled_from(stepped.inside)))
        assert len(stepped.inside) <= count
        assert stepped.count(BULK) <= max(1, count - 1)
        waiting = [each.priority for each in stepped.waiting]
        assert len(stepped.inside) == count or SOON not in waiting, (
            "nothing waits for a thread that is free"
        )
        assert (
            stepped.count(BULK) == max(1, count - 1)
            or len(stepped.inside) == count
            or BULK not in waiting
        )
    while stepped.inside:
        stepped.end(stepped.inside[0])
    assert stepped.waiting == []
    assert (stepped.threads._free, stepped.threads._free_to_bulk) == (count, max(1, count - 1))
    assert stepped.threads.heartbeat.stalled_seconds == 0


def test_interactive_work_is_done_beside_a_flood_of_bulk() -> None:
    threads = TokenizerThreads(2, "test")
    flood, wanted = [Payload(BULK) for _ in range(4)], Payload()
    submitted(threads, *flood)
    assert flood[0].begun.wait(30)
    submitted(threads, wanted)
    wanted.end()
    assert not flood[1].begun.is_set()
    for each in flood:
        each.may_end.set()
    for each in flood:
        assert each.done.wait(30)
    threads.close()


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
