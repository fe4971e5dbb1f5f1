"""Flows: what both clients do to send calls, wait and retry, as generators without I/O.

A flow yields commands and is sent their outcomes, or has their errors thrown into it. The blocking client executes a
command by blocking, the asyncio client by awaiting. (As the auth flows of httpx do, and h11.)

    flow --Wait(call)--> driver --response or error--> flow --Pause(0.2)--> driver ... --Output--> caller
"""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from headlight.client.retries import Retries

T = TypeVar("T")
ResultT = TypeVar("ResultT")
JobT = TypeVar("JobT")


class Pause(NamedTuple):
    """Wait some seconds, but not for longer than the client is open."""

    seconds: float


class LayOut(NamedTuple):
    """Outcome: `make()`, which takes long for many inputs."""

    make: Callable[[], Any]
    inputs: int


class Wait(NamedTuple):
    """Outcome: the response of a unary call."""

    call: Any


class Failure(NamedTuple):
    """Outcome: the error that a unary call has ended with, if it has. Not waited for."""

    call: Any


class Read(NamedTuple):
    """Outcome: the next frame of a stream; None at its end."""

    call: Any


class Linger(NamedTuple):
    """Wait for the status of a stream, but not longer than some seconds."""

    call: Any
    seconds: float


class Output(NamedTuple):
    """Pass a value on to the caller; the last one is what the flow returned."""

    value: Any


Command: TypeAlias = "Pause | LayOut | Wait | Failure | Read | Linger | Output"
Flow: TypeAlias = Generator[Command, Any, T]


def then(flow: Flow[T], read: Callable[[T], ResultT]) -> Flow[ResultT]:
    """What `read` makes of the result of a flow."""
    return read((yield from flow))


def only(results: Sequence[T]) -> T:
    """The one result of one input."""
    (result,) = results
    return result


def steps(flow: Flow[Any]) -> Flow[None]:
    """The commands of a flow, and what it returns as the last one."""
    yield Output((yield from flow))


def run(flow: Flow[T], execute: Callable[[Command], Any]) -> T:
    """Execute a flow to its end by blocking and return its result."""
    with contextlib.closing(steps(flow)) as commands:
        return output(commands, execute)  # type: ignore[no-any-return]  # the flow's


def output(commands: Flow[None], execute: Callable[[Command], Any]) -> Any:
    """Execute commands by blocking and return the next output."""
    command = next(commands)
    while not isinstance(command, Output):
        try:
            outcome = execute(command)
        except BaseException as error:
            command = commands.throw(error)
        else:
            command = commands.send(outcome)
    return command.value


def in_order(
    jobs: Iterable[JobT],
    window: int,
    start: Callable[[JobT], Any],
    take: Callable[[JobT, Any], Flow[Sequence[JobT] | None]],
    retries: Retries,
) -> Flow[None]:
    """Keep up to `window` calls in flight and take their answers in the order of the jobs.

    Args:
        jobs: what to call for.
        window: calls in flight at once.
        start: begins a call.
        take: waits for a call and uses its answer. Returns the jobs to do in the place of this one, if any.
        retries: decide whether a call that failed is begun again.

    Raises:
        HeadlightError: that of the first call that failed for good. All others are cancelled.
    """
    coming = iter(jobs)
    pending: deque[tuple[JobT, Any]] = deque()
    try:
        while True:
            for job in itertools.islice(coming, max(0, window - len(pending))):
                pending.append((job, start(job)))
            if not pending:
                return
            try:
                instead = yield from take(*pending[0])
            except retries.mended as error:
                seconds = retries.delay(error)
                if seconds is None:
                    raise
            else:
                retries.reset()
                pending.popleft()
                for job in reversed(instead or ()):
                    pending.appendleft((job, start(job)))
                continue
            yield Pause(seconds)
            for at, (job, call) in enumerate(list(pending)):
                # What failed beside the first is not waited for once more.
                if at == 0 or retries.covers((yield Failure(call))):
                    pending[at] = job, start(job)
    finally:
        for _, call in pending:
            call.cancel()
