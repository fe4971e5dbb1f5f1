"""Embedding job for a long list: blocks in flight at once, rows in order, waits for the service."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from headlight.cli.embed.job_checkpoint import Rows
from headlight.cli.error_advice import in_words
from headlight.cli.input_lines import Given
from headlight.cli.signals import result_of, undisturbed
from headlight.client.call_flow import Failure, Flow, Pause, Retries, Wait, in_order, run
from headlight.client.calls.list_work import WHEN_MIXED
from headlight.client.connection_advice import misdirected
from headlight.client.sync_client import Client
from headlight.description import ModelDescription
from headlight.errors import (
    DeadlineExceeded,
    HeadlightError,
    InvalidInput,
    MixedWeights,
    Overloaded,
    Unavailable,
)
from headlight.interface.arguments import Input
from headlight.results import Embeddings, ModelRef
from headlight.wire.printable import escaped
from headlight.wire.status_errors import INPUT_INDEX

BLOCKS_AT_ONCE = 4
BLOCK = 256  # inputs, if the service reports no limit for a request
LEAST_BLOCK = 32
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 5.0


class JobRetries(Retries):
    """Retry policy for a service that is unavailable or overloaded.

    Args:
        seconds: longest time to wait, since the last answer.
        timeout: seconds from now for the whole job; None: no limit.
        tell: called with a line when waiting begins.
    """

    def __init__(self, seconds: float, timeout: float | None, tell: Callable[[str], None]) -> None:
        super().__init__(
            None if timeout is None else time.monotonic() + timeout, Unavailable, Overloaded
        )
        self._seconds, self._tell = seconds, tell
        self.reset()
        self._answered = False

    def reset(self) -> None:
        """Reset the wait and its pauses after an answer."""
        self._answered = True
        self._since: float | None = None
        self._pause = FIRST_PAUSE_SECONDS

    def delay(self, error: HeadlightError) -> float | None:
        """Return the delay as the client's own retry policy does; report when waiting begins."""
        seconds = super().delay(error)
        if seconds is None:
            return None
        if self._since is None:
            self._tell(
                f"{' '.join(error.message.split())}; waiting for it, "
                f"for {self._seconds:g} s at most"
            )
            self._since = time.monotonic()
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        return seconds

    def _backoff(self, error: HeadlightError) -> float | None:
        named = error.retry_after_seconds if isinstance(error, Overloaded) else 0.0
        now = time.monotonic()
        end = self._seconds + (now if self._since is None else self._since)
        # After an answer, another replica or a proxy may send the same error for a while.
        wrong = not self._answered and misdirected(error.message)
        return (
            None
            if named is None or now >= end or wrong
            else min(max(self._pause, named), end - now)
        )

    def persist(self, action: Callable[[], ModelDescription]) -> ModelDescription:
        """Repeat an action until the service answers, and return its result.

        Raises the action's error if no retry is left.
        """
        while True:
            try:
                result = action()
            except self.mended as error:
                if (seconds := self.delay(error)) is None:
                    raise
                time.sleep(seconds)
            else:
                self.reset()
                return result

    def execute(self, command: object) -> Any:
        """Execute a command of a flow of futures. A signal can end the wait.

        Raises the future's error.
        """
        match command:
            case Pause(seconds):
                time.sleep(seconds)
            case Failure(future):
                return future.exception() if future.done() else None
            case Wait(future):
                left = (
                    None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
                )
                try:
                    return result_of(future, left)
                except TimeoutError:
                    raise DeadlineExceeded("the client's timeout passed") from None


def fill(
    rows: Rows,
    given: Given,
    client: Client,
    encode: Callable[[Sequence[Input]], Embeddings],
    *,
    skip: bool,
    model: ModelDescription,
    retries: JobRetries,
    tell: Callable[[int], None],
) -> None:
    """Add the missing rows.

    Args:
        rows: the rows of the first inputs; the others are appended.
        given: all inputs, and known problems with some.
        client: closed if the job ends early.
        encode: requests the vectors of some inputs.
        skip: whether to leave out inputs that cannot be encoded, instead of raising an error.
        model: the model whose weights must have made all vectors.
        retries: retry policy for an unavailable service.
        tell: called with the number of rows each time that it grows.

    Raises:
        HeadlightError: an error of the client; `rows` has the earlier vectors.
        OSError: rows cannot be written.
    """
    inputs, problems, pool = given.texts, dict(given.problems), ThreadPoolExecutor(BLOCKS_AT_ONCE)

    def good(block: range) -> list[int]:
        return [place for place in block if place not in problems]

    def begin(block: range) -> Future[Embeddings | None]:
        asked = [inputs[place] for place in good(block)]
        return pool.submit(lambda: encode(asked) if asked else None)

    def take(block: range, future: Future[Embeddings | None]) -> Flow[Sequence[range] | None]:
        try:
            found: Embeddings | None = yield Wait(future)
        except InvalidInput as error:
            return parts_around(block, good(block), error, problems, skip)
        except MixedWeights as error:
            # One block had different weights. The advice to call again is wrong here: all rows must
            # come from the weights of `model`.
            raise MixedWeights(error.message.removesuffix(WHEN_MIXED)) from None
        if found is not None and not found.model.compares_with(model.ref):
            raise changed(model.ref, found.model)
        skipped = {place - block.start: problems[place] for place in block if place in problems}
        rows.append(inputs[block.start : block.stop], found, skipped)
        tell(len(rows))
        return None

    blocks = blocks_of(len(rows), len(inputs), model.limits.max_items or BLOCK)
    try:
        run(in_order(blocks, BLOCKS_AT_ONCE, begin, take, retries), retries.execute)
    except BaseException:
        with undisturbed():
            client.close()  # ends the calls in flight, for which the pool would wait
            pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def blocks_of(done: int, total: int, most: int) -> Iterator[range]:
    """Return ranges of the missing places, up to `most` each.

    A short list is split into smaller blocks, so that BLOCKS_AT_ONCE of them run at once.
    """
    size = min(most, max(LEAST_BLOCK, math.ceil((total - done) / BLOCKS_AT_ONCE)))
    return (range(first, min(first + size, total)) for first in range(done, total, size))


def parts_around(
    block: range, asked: Sequence[int], error: InvalidInput, problems: dict[int, str], skip: bool
) -> list[range]:
    """Split a block in two before the input that was refused. The inputs before it are good.

    Args:
        block: places in the whole list.
        asked: the places of the block that were in the request.
        error: the refusal; its index counts within `asked`.
        problems: the problem is added here if the input may be left out.
        skip: whether the input may be left out.

    Raises:
        InvalidInput: with the place in the whole list, if the input may not be left out; the error
            itself, if it names no input.
    """
    index = INPUT_INDEX.search(error.field)
    if index is None or int(index[0]) >= len(asked):
        raise error
    place = asked[int(index[0])]
    if not skip:
        raise InvalidInput(INPUT_INDEX.sub(str(place), error.field), error.problem) from None
    problems[place] = in_words(error.problem)
    return [part for part in (range(block.start, place), range(place, block.stop)) if part]


def changed(before: ModelRef, now: ModelRef) -> MixedWeights:
    """Return the error for a service whose weights were replaced meanwhile."""
    names = (escaped(f"{ref.name} {ref.version} {ref.precision}") for ref in (before, now))
    return MixedWeights(
        f"the service's weights were replaced meanwhile ({', now '.join(names)}): "
        "vectors would not compare"
    )
