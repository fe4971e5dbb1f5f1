"""How a long list of inputs is embedded: a block at a time, some at once, in order; waiting for a service that is away."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType
from typing import NamedTuple, TypeVar

from headlight.client import Client
from headlight.convert import Input, Reading
from headlight.description import ModelDescription
from headlight.embeddings import Embeddings
from headlight.errors import DeadlineExceeded, HeadlightError, InvalidInput, MixedWeights, Overloaded, Unavailable
from headlight.results import ModelRef
from headlight.rows import Rows
from headlight.spec import PooledSpec
from headlight.status import INPUT_INDEX

T = TypeVar("T")
BLOCKS_AT_ONCE = 4
BLOCK = 256  # inputs, where the service does not say how many a request may have
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 5.0


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


class Block(NamedTuple):
    """What became of some consecutive inputs: the vectors of the good ones, and by place what is wrong with the others."""

    found: Embeddings | None
    skipped: dict[int, str]


class Patience:
    """How long a service that is away, or has too much to do, is waited for.

    Args:
        seconds: since it last answered.
        timeout: seconds from now when all must be done; None: it may take as long as it needs.
        tell: takes a line when waiting begins.
    """

    def __init__(self, seconds: float, timeout: float | None, tell: Callable[[str], None]) -> None:
        self._seconds, self._tell = seconds, tell
        self._end = None if timeout is None else time.monotonic() + timeout
        self.reset()

    def reset(self) -> None:
        """It has answered."""
        self._since: float | None = None
        self._pause = FIRST_PAUSE_SECONDS

    @property
    def left(self) -> float | None:
        """Seconds until all must be done."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def wait(self, error: HeadlightError) -> None:
        """Let some time pass. Raises HeadlightError, `error` itself, where that cannot help or was done for long enough."""
        named = error.retry_after_seconds if isinstance(error, Overloaded) else 0.0
        now = time.monotonic()
        end = self._seconds + (now if self._since is None else self._since)
        if isinstance(error, MixedWeights) or named is None or now >= end:
            raise error
        pause = min(max(self._pause, named), end - now)
        if self.left is not None and pause >= self.left:
            raise error
        if self._since is None:
            self._tell(f"{' '.join(error.message.split())}; waiting for it, for {self._seconds:g} s at most")
            self._since = now
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        time.sleep(pause)

    def persist(self, action: Callable[[], T]) -> T:
        """The result of what is done again until the service answers. Raises as the action does."""
        while True:
            try:
                result = action()
            except (Unavailable, Overloaded) as error:
                self.wait(error)
            else:
                self.reset()
                return result


class Encoder(NamedTuple):
    """How blocks are encoded. `skip`: whether what cannot be is left out, rather than refused."""

    client: Client
    spec: PooledSpec
    reading: Reading
    skip: bool

    def encode(self, first: int, inputs: Sequence[Input], skipped: Mapping[int, str]) -> Block:
        """One block.

        Args:
            first: the place of the first in the whole list, from which refusals count.
            inputs: of the block.
            skipped: by place in the block, what is known to be wrong.

        Raises:
            HeadlightError: what the client raises.
        """
        skipped = dict(skipped)
        while good := [at for at in range(len(inputs)) if at not in skipped]:
            try:
                found = self.client.encode_with_info([inputs[at] for at in good], self.spec, **self.reading)
            except InvalidInput as error:
                index = INPUT_INDEX.search(error.field)
                if index is None:
                    raise
                at = good[int(index[0])]
                if not self.skip:
                    raise InvalidInput(INPUT_INDEX.sub(str(first + at), error.field), error.problem) from None
                skipped[at] = error.problem
            else:
                return Block(found, skipped)
        return Block(None, skipped)


def fill(
    rows: Rows,
    inputs: Sequence[Input],
    problems: Mapping[int, str],
    encoder: Encoder,
    model: ModelDescription,
    patience: Patience,
    tell: Callable[[int], None],
) -> None:
    """Adds the rows that are missing.

    Args:
        rows: of the first inputs.
        inputs: all.
        problems: by place, what is known to be wrong.
        encoder: encodes them; its client is closed where this does not come to its end.
        model: whose weights all must come from.
        patience: with a service that is away.
        tell: takes the number of rows each time that it grows.

    Raises:
        HeadlightError: what the client raises; what came before it is among the rows.
        OSError: rows cannot be written.
    """
    size = model.limits.max_items or BLOCK
    blocks = iter([range(first, min(first + size, len(inputs))) for first in range(len(rows), len(inputs), size)])
    pool = ThreadPoolExecutor(BLOCKS_AT_ONCE)

    def begin(block: range) -> tuple[range, Future[Block]]:
        known = {at - block.start: problems[at] for at in block if at in problems}
        return block, pool.submit(encoder.encode, block.start, inputs[block.start : block.stop], known)

    try:
        pending = deque(map(begin, itertools.islice(blocks, BLOCKS_AT_ONCE)))
        while pending:
            block, future = pending.popleft()
            try:
                done = future.result(patience.left)
            except TimeoutError:
                raise DeadlineExceeded("the client's timeout passed") from None
            except (Unavailable, Overloaded) as error:
                patience.wait(error)
                pending.appendleft(begin(block))
                continue
            patience.reset()
            if done.found is not None and not done.found.model.compares_with(model.ref):
                raise changed(model.ref, done.found.model)
            rows.append(inputs[block.start : block.stop], done.found, done.skipped)
            tell(len(rows))
            pending.extend(map(begin, itertools.islice(blocks, 1)))
    except BaseException:
        encoder.client.close()  # ends what is in flight, for which the pool would wait
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def changed(before: ModelRef, now: ModelRef) -> MixedWeights:
    """The error for a service whose weights were replaced meanwhile."""
    names = (f"{ref.name} {ref.version} {ref.precision}" for ref in (before, now))
    return MixedWeights(
        f"the service's weights were replaced meanwhile ({', now '.join(names)}): vectors would not compare"
    )


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does. Raises Terminated then."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
