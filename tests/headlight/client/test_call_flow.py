"""The retry loop of both clients and `headlight embed`, without a transport."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Generator
from typing import Any

import pytest

from headlight import EngineError, HeadlightError, Overloaded, Unavailable
from headlight.client.call_flow import (
    Failure,
    Flow,
    Output,
    Pause,
    Retries,
    Wait,
    in_order,
    run,
    steps,
)

LATER = Overloaded("the queue is full", 1.0)


class Call:
    """Fake call with one number, which may fail with an error at first."""

    def __init__(self, job: int, error: Exception | None) -> None:
        self.job, self.error = job, error
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Calls:
    """Fake that starts calls and takes their answers."""

    def __init__(self, errors: dict[int, list[Exception]]) -> None:
        self.errors = errors
        self.started: list[Call] = []
        self.taken: list[int] = []

    def start(self, job: int) -> Call:
        failures = self.errors.get(job)
        self.started.append(Call(job, failures.pop(0) if failures else None))
        return self.started[-1]

    def take(self, job: int, call: Call) -> Flow[None]:
        self.taken.append((yield Wait(call)))

    def flow(self, jobs: int, window: int) -> Flow[None]:
        retries = Retries(None, Overloaded, Unavailable)
        return in_order(range(jobs), window, self.start, self.take, retries)

    def execute(self, command: object) -> Any:
        if isinstance(command, Wait):
            if command.call.error is not None:
                raise command.call.error
            return command.call.job
        if isinstance(command, Failure):
            return command.call.error
        assert isinstance(command, Pause)
        return None


def test_answers_are_taken_in_order_within_the_call_window() -> None:
    calls = Calls({})
    commands = calls.flow(5, 2)
    next(commands)
    assert len(calls.started) == 2
    commands.close()
    assert [call.cancelled for call in calls.started] == [True, True]
    calls = Calls({})
    run(calls.flow(5, 2), calls.execute)
    assert calls.taken == [0, 1, 2, 3, 4]
    assert not any(call.cancelled for call in calls.started)


@pytest.mark.parametrize(
    ("beside", "again"),
    [([LATER], [0, 1]), ([Unavailable("lost")], [0, 1]), ([EngineError("4f2a")], [0]), ([], [0])],
)
def test_calls_that_failed_concurrently_are_retried_together(
    beside: list[Exception], again: list[int]
) -> None:
    calls = Calls({0: [LATER], 1: beside})
    commands = calls.flow(2, 2)
    next(commands)
    pause = commands.throw(LATER)
    assert isinstance(pause, Pause)
    assert 1.0 <= pause.seconds <= 1.25
    assert commands.send(None) == Failure(calls.started[1])
    with contextlib.suppress(StopIteration):
        commands.send(calls.started[1].error)
    assert [call.job for call in calls.started[2:]] == again
    commands.close()


def test_a_shed_call_keeps_its_own_delay_beside_a_lost_call() -> None:
    calls = Calls({0: [Unavailable("lost")], 1: [LATER]})
    run(calls.flow(2, 2), calls.execute)
    assert [call.job for call in calls.started] == [0, 1, 0, 1]
    assert calls.taken == [0, 1]


def test_a_permanent_error_cancels_the_other_calls() -> None:
    calls = Calls({1: [EngineError("4f2a")]})
    with pytest.raises(EngineError, match="4f2a"):
        run(calls.flow(4, 3), calls.execute)
    assert calls.taken == [0]
    assert [call.cancelled for call in calls.started] == [False, True, True, True]


def test_a_job_can_be_split_in_place() -> None:
    calls = Calls({})

    def take(job: int, call: Call) -> Flow[list[int]]:
        calls.taken.append((yield Wait(call)))
        return [10, 11] if job == 1 else []

    run(in_order(range(3), 2, calls.start, take, Retries(None)), calls.execute)
    assert calls.taken == [0, 1, 10, 11, 2]


def test_the_last_output_of_a_flow_is_its_result() -> None:
    def flow() -> Generator[Any, Any, str]:
        yield Output(1)
        return "result"

    assert list(steps(flow())) == [Output(1), Output("result")]


@pytest.mark.parametrize("error", [EngineError, Unavailable, Overloaded])
def test_an_error_keeps_no_earlier_answers_alive(error: type[HeadlightError]) -> None:
    def execute(command: object) -> Any:
        assert isinstance(command, Wait)
        if command.call.job == 1:
            raise error("4f2a")
        return command.call.job

    calls = Calls({})
    taken = weakref.ref(calls)
    gc.disable()
    try:
        with contextlib.suppress(HeadlightError):
            run(calls.flow(2, 1) if error is Overloaded else once(calls), execute)
        del calls
        assert taken() is None
    finally:
        gc.enable()


def once(calls: Calls) -> Flow[None]:
    """Retry policy that retries no error."""
    return in_order(range(2), 1, calls.start, calls.take, Retries(None))
