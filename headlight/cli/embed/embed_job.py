"""Embedding of a long list of inputs: a block at a time, some at once, in order; waiting for a service that is away."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from headlight.cli.embed.vector_rows import Rows
from headlight.cli.error_advice import misdirected
from headlight.cli.signals import result_of, undisturbed
from headlight.client.call_flow import Failure, Flow, Pause, Wait, in_order, run
from headlight.client.calls.list_work import WHEN_MIXED
from headlight.client.channel import MOST_SECONDS
from headlight.client.retries import Retries
from headlight.client.sync_client import Client
from headlight.description import ModelDescription
from headlight.embeddings import Embeddings
from headlight.errors import DeadlineExceeded, HeadlightError, InvalidInput, MixedWeights, Overloaded, Unavailable
from headlight.results import ModelRef
from headlight.spec import PooledSpec
from headlight.wire.client_codec import Input, Reading
from headlight.wire.printable import escaped
from headlight.wire.status_errors import INPUT_INDEX

T = TypeVar("T")
BLOCKS_AT_ONCE = 4
BLOCK = 256  # inputs, where the service does not say how many a request may have
LEAST_BLOCK = 32
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 5.0


class Block(NamedTuple):
    """What became of some consecutive inputs: the vectors of the good ones, and by place what is wrong with the others."""

    found: Embeddings | None
    skipped: dict[int, str]


class Patience(Retries):
    """How long a service that is away, or has too much to do, is waited for.

    Args:
        seconds: since it last answered.
        timeout: seconds from now when all must be done; None: it may take as long as it needs.
        tell: takes a line when waiting begins.
    """

    def __init__(self, seconds: float, timeout: float | None, tell: Callable[[str], None]) -> None:
        super().__init__(None if timeout is None else time.monotonic() + timeout, Unavailable, Overloaded)
        self._seconds, self._tell = seconds, tell
        self.reset()
        self._answered = False

    def reset(self) -> None:
        """It has answered."""
        self._answered = True
        self._since: float | None = None
        self._pause = FIRST_PAUSE_SECONDS

    @property
    def left(self) -> float | None:
        """Seconds until all must be done."""
        return None if self._deadline is None else min(MOST_SECONDS, max(0.0, self._deadline - time.monotonic()))

    def delay(self, error: HeadlightError) -> float | None:
        """As the client's own retries; tells when the waiting begins."""
        seconds = super().delay(error)
        if seconds is None:
            return None
        if self._since is None:
            self._tell(f"{' '.join(error.message.split())}; waiting for it, for {self._seconds:g} s at most")
            self._since = time.monotonic()
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        return seconds

    def _backoff(self, error: HeadlightError) -> float | None:
        named = error.retry_after_seconds if isinstance(error, Overloaded) else 0.0
        now = time.monotonic()
        end = self._seconds + (now if self._since is None else self._since)
        # Of one that has answered, another replica or what stands before it may say the same for a while.
        wrong = not self._answered and misdirected(error.message)
        return None if named is None or now >= end or wrong else min(max(self._pause, named), end - now)

    def persist(self, action: Callable[[], T]) -> T:
        """The result of what is done again until the service answers. Raises as the action does."""
        while True:
            try:
                result = action()
            except self.mended as error:
                seconds = self.delay(error)
                if seconds is None:
                    raise
            else:
                self.reset()
                return result
            time.sleep(seconds)

    def execute(self, command: object) -> Any:
        """Do what a flow of futures asks for, in pieces that a signal can end. Raises as the future does."""
        match command:
            case Pause(seconds):
                time.sleep(seconds)
            case Failure(future):
                return future.exception() if future.done() else None
            case Wait(future):
                try:
                    return result_of(future, self.left)
                except TimeoutError:
                    raise DeadlineExceeded("the client's timeout passed") from None


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
        good = [at for at in range(len(inputs)) if at not in skipped]
        if not good:
            return Block(None, dict(skipped))
        try:
            found = self.client.encode_with_info([inputs[at] for at in good], self.spec, **self.reading)
        except (
            MixedWeights
        ) as error:  # within one block; to call again is no remedy for a job that has rows of one of them
            raise MixedWeights(error.message.removesuffix(WHEN_MIXED)) from None
        except InvalidInput as error:
            index = INPUT_INDEX.search(error.field)
            if index is None or int(index[0]) >= len(good):
                raise
            place = first + good[int(index[0])]
            raise InvalidInput(INPUT_INDEX.sub(str(place), error.field), error.problem) from None
        return Block(found, dict(skipped))


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
    problems, pool = dict(problems), ThreadPoolExecutor(BLOCKS_AT_ONCE)

    def begin(block: range) -> Future[Block]:
        known = {at - block.start: problems[at] for at in block if at in problems}
        return pool.submit(encoder.encode, block.start, inputs[block.start : block.stop], known)

    def take(block: range, future: Future[Block]) -> Flow[Sequence[range] | None]:
        try:
            done: Block = yield Wait(future)
        except InvalidInput as error:
            return parts_around(block, error, problems, encoder.skip)
        if done.found is not None and not done.found.model.compares_with(model.ref):
            raise changed(model.ref, done.found.model)
        rows.append(inputs[block.start : block.stop], done.found, done.skipped)
        tell(len(rows))
        return None

    blocks = blocks_of(len(rows), len(inputs), model.limits.max_items or BLOCK)
    try:
        run(in_order(blocks, BLOCKS_AT_ONCE, begin, take, patience), patience.execute)
    except BaseException:
        with undisturbed():
            encoder.client.close()  # ends what is in flight, for which the pool would wait
            pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def blocks_of(done: int, total: int, most: int) -> Iterator[range]:
    """The places that are missing, up to `most` together; of a short list, too, there are as many blocks as are asked for at once."""
    size = min(most, max(LEAST_BLOCK, math.ceil((total - done) / BLOCKS_AT_ONCE)))
    return (range(first, min(first + size, total)) for first in range(done, total, size))


def parts_around(block: range, error: InvalidInput, problems: dict[int, str], skip: bool) -> list[range]:
    """A block in two, from an input that was refused: what stands before it is good, and is not asked for with others again.

    Args:
        block: places in the whole list.
        error: names the place of one of them.
        problems: gets what is wrong with it.
        skip: whether it may be left out.

    Raises:
        InvalidInput: the error itself, where it may not, or names none.
    """
    index = INPUT_INDEX.search(error.field)
    if not skip or index is None or (place := int(index[0])) not in block:
        raise error
    problems[place] = error.problem
    return [part for part in (range(block.start, place), range(place, block.stop)) if part]


def changed(before: ModelRef, now: ModelRef) -> MixedWeights:
    """The error for a service whose weights were replaced meanwhile."""
    names = (escaped(f"{ref.name} {ref.version} {ref.precision}") for ref in (before, now))
    return MixedWeights(
        f"the service's weights were replaced meanwhile ({', now '.join(names)}): vectors would not compare"
    )
