"""Blocks of a long list: several in flight, results in order, bad inputs apart, retries."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from headlight.bulk.signals import result_of, undisturbed
from headlight.client.call_flow import Failure, Flow, Pause, Retries, Wait, in_order, run
from headlight.client.connection_advice import misdirected
from headlight.description import ModelDescription
from headlight.errors import (
    DeadlineExceeded,
    DeviceFull,
    HeadlightError,
    InvalidInput,
    MixedWeights,
    NotFinite,
    Overloaded,
    Reason,
    Unavailable,
)
from headlight.interface.arguments import Input
from headlight.printable import escaped
from headlight.refusals import at_place, place_of
from headlight.results import ModelRef

ResultT = TypeVar("ResultT")

BLOCKS_AT_ONCE = 4
BLOCK = 256  # inputs, if the service reports no limit for a request
BLOCK_TOKENS = 16_384  # of a service: a slow one answers blocks of long texts within seconds
LEAST_BLOCK = 32
LARGEST_BLOCK = 512  # inputs: a job saves and repeats whole blocks, however many a request may have
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.25, 5.0


class BlockSize(NamedTuple):
    """Size of the largest blocks.

    Attributes:
        inputs: most inputs.
        tokens: most characters and token ids together, as upper bounds of tokens.
        longest: most tokens that the model reads of one input.
    """

    inputs: int
    tokens: int = sys.maxsize
    longest: int = sys.maxsize

    @classmethod
    def of_service(cls, model: ModelDescription) -> BlockSize:
        """Return the size for requests to a service.

        Blocks are small, so that they end one after another, and not all together at the end.
        """
        most = min(model.limits.max_items or BLOCK, LARGEST_BLOCK)
        return cls(most, BLOCK_TOKENS, model.max_length)


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
        self._answered = self._ended = False

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
        since = self._since  # another thread may reset it
        end = self._seconds + (now if since is None else since)
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

    def end(self) -> None:
        """Let no thread wait longer: the job is to end."""
        self._ended = True

    def _sleep(self, seconds: float) -> None:
        """Sleep in pieces. Raises Unavailable after `end`."""
        while seconds > 0:
            time.sleep(min(seconds, LONGEST_PAUSE_SECONDS))
            seconds -= LONGEST_PAUSE_SECONDS
            if self._ended:
                raise Unavailable("the job was ended")

    def execute(self, command: object) -> Any:
        """Execute a command of a flow of futures. A signal can end the wait.

        Raises the future's error.
        """
        match command:
            case Pause(seconds):
                self._sleep(seconds)
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


def encode_blocks(
    inputs: Sequence[Input],
    problems: dict[int, str],
    encode: Callable[[Sequence[Input]], ResultT],
    take: Callable[[range, ResultT | None], None],
    *,
    retries: JobRetries,
    stop: Callable[[], None],
    skip: bool,
    block: BlockSize,
    first: int = 0,
    at_once: int | None = None,
    reword: Callable[[InvalidInput], str] = attrgetter("problem"),
) -> None:
    """Encode a list in blocks, several at once, and take the results in order.

    Args:
        inputs: all inputs.
        problems: the reasons, by place, of inputs that are left out; more are added if `skip`.
        encode: returns the result of some inputs.
        take: receives the places of a block, and the result of those that are not left out; None:
            all are.
        retries: retry policy for an unavailable service.
        stop: ends the calls in flight, if the job ends early.
        skip: whether to leave out inputs that cannot be encoded, or have no usable result, instead
            of raising an error.
        block: size of a block.
        first: the first place to encode.
        at_once: blocks in flight; None: BLOCKS_AT_ONCE.
        reword: the wording of a problem for its reader.

    Raises:
        HeadlightError: an error of `encode`; the earlier results have been taken.
        OSError: of `take`.
    """
    at_once = at_once or BLOCKS_AT_ONCE
    pool = ThreadPoolExecutor(at_once)

    def good(block: range) -> list[int]:
        return [place for place in block if place not in problems]

    def begin(block: range) -> Future[ResultT | None]:
        some = [inputs[place] for place in good(block)]
        return pool.submit(lambda: encode(some) if some else None)

    def receive(block: range, future: Future[ResultT | None]) -> Flow[Sequence[range] | None]:
        try:
            result: ResultT | None = yield Wait(future)
        except (InvalidInput, NotFinite, DeviceFull) as error:
            return blocks_around(block, good(block), error, problems, skip, reword)
        except MixedWeights as error:
            # One block had different weights. The advice to call again is wrong here: all results
            # must come from the same weights.
            if error.refusal.reason is not Reason.MIXED_WEIGHTS:
                raise
            raise MixedWeights(Reason.MIXED_IN_A_JOB, **error.refusal.args) from None
        take(block, result)
        return None

    blocks = blocks_of(first, inputs, block, at_once)
    try:
        run(in_order(blocks, at_once, begin, receive, retries), retries.execute)
    except BaseException:
        with undisturbed():
            stop()  # the pool would wait for the calls in flight
            pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def _characters(each: Input) -> int:
    """Return the characters of a text or a pair, or the number of ids."""
    return sum(map(len, each)) if isinstance(each, tuple) else len(each)


def blocks_of(done: int, inputs: Sequence[Input], most: BlockSize, at_once: int) -> Iterator[range]:
    """Yield ranges of the missing places, in order.

    A short list is split into smaller blocks, so that `at_once` of them run at once.
    """
    count = min(most.inputs, max(LEAST_BLOCK, math.ceil((len(inputs) - done) / at_once)))
    begin, tokens = done, 0
    for place in range(done, len(inputs)):
        size = min(_characters(inputs[place]), most.longest)
        tokens += size
        if place > begin and (place - begin == count or tokens > most.tokens):
            yield range(begin, place)
            begin, tokens = place, size
    if begin < len(inputs):
        yield range(begin, len(inputs))


def blocks_around(
    block: range,
    places: Sequence[int],
    error: InvalidInput | NotFinite | DeviceFull,
    problems: dict[int, str],
    skip: bool,
    reword: Callable[[InvalidInput], str],
) -> list[range]:
    """Return the blocks that replace one that failed.

    Args:
        block: places in the whole list.
        places: the places of the block that were in the request.
        error: why it failed.
        problems: the reason is added here if one input is at fault and may be left out.
        skip, reword: of `encode_blocks`.

    Raises:
        HeadlightError: the error, with the place in the whole list, if the input at fault may not
            be left out; the error itself, if it names no input.
    """
    if isinstance(error, InvalidInput):
        place = refused_place(places, error)
        if not skip:
            raise error.at(at_place(error.refusal.path, place)) from None
        problems[place] = reword(error)
        return parts_at(block, place)  # the inputs before it are good
    # Of a runtime; a service halves its own batches.
    if len(places) > 1:
        return parts_at(block, places[len(places) // 2])
    if not skip or not isinstance(error, NotFinite):
        raise error
    problems[places[0]] = error.message
    return [block]


def parts_at(block: range, place: int) -> list[range]:
    """Return the parts of a block before a place and from it on, without empty ones."""
    return [part for part in (range(block.start, place), range(place, block.stop)) if part]


def refused_place(places: Sequence[int], error: InvalidInput) -> int:
    """Return the place in the whole list of an input that was refused.

    Args:
        places: the places of the inputs of the request.
        error: the refusal; its index counts within `places`.

    Raises:
        InvalidInput: the error itself, if it names no input.
    """
    place = place_of(error.refusal.path)
    if place is None or place >= len(places):
        raise error
    return places[place]


def check_weights(before: ModelRef, now: ModelRef) -> None:
    """Raise MixedWeights if the service's weights were replaced meanwhile."""
    if not now.compares_with(before):
        names = (escaped(f"{ref.name} {ref.version} {ref.precision}") for ref in (before, now))
        raise MixedWeights(
            f"the service's weights were replaced meanwhile ({', now '.join(names)}): "
            "vectors would not compare"
        )
