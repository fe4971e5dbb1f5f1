"""Flows: sending, waiting and retrying of both clients, as generators without I/O.

A flow yields commands. Its driver sends their outcomes back, or throws their errors into it. The
blocking client executes a command by blocking, the asyncio client by awaiting. (The auth flows of
httpx and h11 work the same way.)

    flow --Wait(call)--> driver --response or error--> flow --Pause(0.2)--> driver ...
    flow --Output--> caller
"""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from headlight.client.connection_advice import starting
from headlight.errors import HeadlightError, MixedWeights, Overloaded, Unavailable, renamed
from headlight.refusals import Path

T = TypeVar("T")
ResultT = TypeVar("ResultT")
JobT = TypeVar("JobT")
MOST_RETRIES = 8  # in a row, without an answer between them
FIRST_BACKOFF_SECONDS = 0.1
READY_POLL_SECONDS = 0.25  # between two questions to a service that is starting
# Longest wait before a retry that a server can ask for: eight minutes over `MOST_RETRIES`.
LONGEST_PUSHBACK_SECONDS = 60.0


class Pause(NamedTuple):
    """Command to wait for some seconds, at most until the client is closed."""

    seconds: float


class LayOut(NamedTuple):
    """Command to call `make`, which takes long for many inputs. Outcome: its result."""

    make: Callable[[], Any]
    inputs: int


class Wait(NamedTuple):
    """Command to wait for a unary call. Outcome: its response."""

    call: Any


class Failure(NamedTuple):
    """Command to look for the error of a unary call without waiting. Outcome: the error or None."""

    call: Any


class Read(NamedTuple):
    """Command to read from a stream. Outcome: the next frame; None at the end."""

    call: Any


class Linger(NamedTuple):
    """Command to wait for the status of a stream, at most for some seconds."""

    call: Any
    seconds: float


class Output(NamedTuple):
    """Command to pass a value on to the caller. The last one is the flow's return value."""

    value: Any


Command: TypeAlias = "Pause | LayOut | Wait | Failure | Read | Linger | Output"
Flow: TypeAlias = Generator[Command, Any, T]


def then(flow: Flow[T], read: Callable[[T], ResultT]) -> Flow[ResultT]:
    """Apply `read` to the result of a flow."""
    return read((yield from flow))


def naming(flow: Flow[T], names: Mapping[Path, Path]) -> Flow[T]:
    """Name the fields of invalid input otherwise; see `renamed`."""
    with renamed(names):
        return (yield from flow)


def steps(flow: Flow[Any]) -> Flow[None]:
    """Yield the commands of a flow, and its return value as the last `Output`."""
    yield Output((yield from flow))


def run(flow: Flow[T], execute: Callable[[Command], Any]) -> T:
    """Execute a flow to its end by blocking and return its result."""
    with contextlib.closing(steps(flow)) as commands:
        return output(commands, execute)  # type: ignore[no-any-return]  # the flow's


def output(commands: Flow[None], execute: Callable[[Command], Any]) -> Any:
    """Execute commands by blocking and return the next output."""
    try:
        command = next(commands)
        while not isinstance(command, Output):
            try:
                outcome = execute(command)
            except BaseException as error:
                command = commands.throw(error)
            else:
                command = commands.send(outcome)
    except HeadlightError as error:
        raise error.with_traceback(None) from None  # a caller needs no frames of flows
    return command.value


class Retries:
    """Retry policy of one call of a method.

    Attributes:
        mended: errors that a retry may resolve.
    """

    def __init__(
        self,
        deadline: float | None,
        *mended: type[HeadlightError],
        once_answered: type[HeadlightError] | None = None,
    ) -> None:
        """Start with no retries made.

        Args:
            deadline: by the monotonic clock; no retry begins after it.
            mended: see the class.
            once_answered: one more such error, retried only after the first answer.
        """
        self.mended = mended
        self._deadline = deadline
        self._once_answered = once_answered
        self._tried = 0
        self._shed = False  # whether the last error was load shedding with a retry delay

    def reset(self) -> None:
        """Start the count anew after an answer."""
        self._tried = 0
        if self._once_answered is not None:
            self.mended, self._once_answered = (*self.mended, self._once_answered), None

    def delay(self, error: HeadlightError) -> float | None:
        """Return the seconds to wait after an error, at most `LONGEST_PUSHBACK_SECONDS`.

        None: no retry. Waiting cannot help, there were enough retries, or the wait would outlast
        the deadline.
        """
        seconds = None if isinstance(error, MixedWeights) else self._backoff(error)
        if seconds is None or (
            self._deadline is not None and seconds >= self._deadline - time.monotonic()
        ):
            return None
        self._shed = isinstance(error, Overloaded)
        return min(seconds, LONGEST_PUSHBACK_SECONDS)

    def covers(self, error: object) -> bool:
        """Return whether the last wait also serves another call, which ended with this error.

        It does if the other call was lost, or if both calls were shed.
        """
        shed = isinstance(error, Overloaded) and error.retry_after_seconds is not None
        return isinstance(error, Unavailable) or (shed and self._shed)

    def _backoff(self, error: HeadlightError) -> float | None:
        """Return the server's delay, or an exponential backoff, with up to 25% jitter."""
        backoff = FIRST_BACKOFF_SECONDS * 2**self._tried
        seconds = error.retry_after_seconds if isinstance(error, Overloaded) else backoff
        self._tried += 1
        if seconds is None or self._tried > MOST_RETRIES:
            return None
        return seconds * random.uniform(1.0, 1.25)


class ReadyRetries(Retries):
    """Retry policy of a client's first call: a service that is starting is waited for."""

    def __init__(self, deadline: float | None, seconds: float) -> None:
        """Begin to count the seconds."""
        super().__init__(deadline, Overloaded, Unavailable)
        self._until = time.monotonic() + seconds

    def _backoff(self, error: HeadlightError) -> float | None:
        if not isinstance(error, Unavailable):
            return super()._backoff(error)
        waits = starting(error) and time.monotonic() < self._until
        return READY_POLL_SECONDS if waits else None


def in_order(
    jobs: Iterable[JobT],
    window: int,
    start: Callable[[JobT], Any],
    take: Callable[[JobT, Any], Flow[Sequence[JobT] | None]],
    retries: Retries,
) -> Flow[None]:
    """Keep up to `window` calls in flight and take their answers in the order of the jobs.

    Args:
        jobs: one for each call.
        window: calls in flight at once.
        start: begins a call.
        take: waits for a call and uses its answer. Returns jobs that replace this one, if any.
        retries: retry policy for failed calls.

    Raises:
        HeadlightError: the error of the first call that failed for good. All others are cancelled.
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
                # The wait for the first call also counts for the others that failed.
                if at == 0 or retries.covers((yield Failure(call))):
                    pending[at] = job, start(job)
    finally:
        for _, call in pending:
            call.cancel()
