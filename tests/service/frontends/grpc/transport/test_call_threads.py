"""The executor of the gRPC server.

Threads on demand, and no call that waits for one in vain.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from headlight_service.frontends.grpc.transport import call_threads
from headlight_service.frontends.grpc.transport.call_threads import (
    MOST_CALLS,
    MOST_PROBES,
    MOST_STREAMS,
    CallThreads,
)

SECONDS = 30


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Return an event that is set at the end: threads that wait for it are released."""
    event = threading.Event()
    yield event
    event.set()


def hold(threads: CallThreads, count: int, released: threading.Event) -> None:
    """Keep so many threads busy."""
    begun = threading.Semaphore(0)

    def work() -> None:
        begun.release()
        released.wait(SECONDS)

    for _ in range(count):
        threads.submit(work)
    for _ in range(count):
        assert begun.acquire(timeout=SECONDS)


def test_work_beside_waiting_calls_gets_its_own_thread(released: threading.Event) -> None:
    threads, done = CallThreads(), threading.Event()
    hold(threads, 100, released)
    threads.submit(done.set)
    assert done.wait(SECONDS)
    assert threads.busy >= 100


def test_one_thread_serves_sequential_calls() -> None:
    threads, names = CallThreads(), set[str]()

    def work(done: threading.Event) -> None:
        names.add(str(threading.get_ident()))
        done.set()

    for _ in range(50):
        done = threading.Event()
        threads.submit(work, done)
        assert done.wait(SECONDS)
        while threads.busy:  # it is idle a moment after its work ends
            pass
    assert len(names) == 1


def test_work_waits_without_an_error_if_no_thread_can_start(
    released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of the executor ends the thread that serves all calls."""
    threads, done = CallThreads(), threading.Event()
    hold(threads, 2, released)

    def none_left(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_left)
        threads.submit(done.set)
        assert threads.should_refuse(streaming=True), "half of what there is"
        assert threads.should_refuse(streaming=False), "three quarters of it"
    assert not done.is_set()
    released.set()
    assert done.wait(SECONDS)


def test_new_streams_are_refused_while_threads_are_short(released: threading.Event) -> None:
    """Statuses, refusals and probes need a thread, too."""
    threads = CallThreads()
    hold(threads, 8, released)
    threads._most, threads._short_until = 16, time.monotonic() + 60
    assert threads.should_refuse(streaming=True)
    assert not threads.should_refuse(streaming=False)
    threads._short_until = 0.0
    assert not threads.should_refuse(streaming=True), "later it is tried again"


def test_idle_threads_end(released: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_threads, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(call_threads, "KEPT_THREADS", 3)
    threads = CallThreads()
    hold(threads, 20, released)
    assert threads._count == 20
    released.set()
    while threads._count > 3:
        threading.Event().wait(0.01)
    done = threading.Event()
    threads.submit(done.set)
    assert done.wait(SECONDS)
    assert threads._count == 3


def test_failing_work_does_not_end_its_thread(caplog: pytest.LogCaptureFixture) -> None:
    threads, done = CallThreads(), threading.Event()

    def fail() -> None:
        raise SystemExit("a secret")

    threads.submit(fail)
    threads.submit(done.set)
    assert done.wait(SECONDS)
    while not caplog.records:
        pass
    assert caplog.records[0].event == "call_failed"  # type: ignore[attr-defined]
    assert "a secret" not in caplog.text


@pytest.mark.parametrize(("streaming", "most"), [(True, MOST_STREAMS), (False, MOST_CALLS)])
def test_idle_streams_leave_threads_for_calls(streaming: bool, most: int) -> None:
    threads = CallThreads()
    threads._count = most - 1
    assert not threads.should_refuse(streaming)
    threads._count = most
    assert threads.should_refuse(streaming)
    for _ in range(MOST_PROBES):
        assert threads.add_probe()
    assert not threads.should_refuse(streaming), "probes are counted apart"
    assert not threads.add_probe(), "the oldest makes room"
