"""Quotas: how many tokens of the model's each client may have computed in a second.

A bucket for each client fills at that rate, up to what `--quota-burst-seconds` lets it save up. What a request has had read is taken
out whatever comes next, or whoever is always refused would have texts read for nothing; the rest of its tokens before it is queued.
It puts back what was not computed where it fails or is shed for another reason; what a caller did not wait for, by leaving or by its
deadline, stays paid, or work would be free of charge for whoever leaves. A request larger than the whole bucket needs a full one, and
the bucket owes the rest.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from weakref import WeakValueDictionary

from headlight.errors import DeadlineExceeded
from headlight_service.config.options import Config
from headlight_service.core.admission.admission_control import SHORTEST_RETRY_SECONDS, Shed, Shortage

READING = 16  # tokens that are read for the price of one that is computed, in which reading it is contained
# Characters that are read, prompts included, for the price of one token that is read. Usual text has 3 to 6 a token and costs
# what its tokens cost; 131,072 line breaks, 3 tokens, cost as much CPU time as 16,384 tokens.
READ_CHARACTERS = 8
MOST_BUCKETS = 10_000  # of names that certificates bring, of which there may be any number
OLDEST = 8  # clients that have not called for longest: among so many it is looked for whom to forget
SLACK = 1e-6  # tokens, for the rounding of sums


class Charge:
    """What is charged for a request that is being worked on.

    Attributes:
        done: tokens that have been computed: whatever comes next, they are paid.
    """

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = 0


class Bucket:
    """What one client may still have computed. For the event loop's thread alone."""

    __slots__ = ("__weakref__", "_at", "_capacity", "_clock", "_level", "_rate")

    def __init__(self, rate: float, capacity: float, clock: Callable[[], float]) -> None:
        """Full.

        Args:
            rate: tokens a second.
            capacity: tokens.
            clock: seconds, monotonic.
        """
        self._rate = rate
        self._capacity = self._level = capacity
        self._clock = clock
        self._at = clock()

    @property
    def level(self) -> float:
        """Tokens left; less than none while it owes some."""
        now = self._clock()
        self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
        self._at = now
        return self._level

    def look_ahead(self, tokens: float, paid: float = 0.0) -> None:
        """Refuse what would be refused.

        Args:
            tokens: of a request.
            paid: of them, what has been taken out, and will be again when it comes anew.

        Raises:
            Shed: with the time after which it will not be, if nothing else is asked for meanwhile.
        """
        lacking = min(tokens, self._capacity) - self.level
        if lacking - paid > SLACK:
            wait = max(SHORTEST_RETRY_SECONDS, math.ceil(1000 * lacking / self._rate) / 1000)
            used = f"the quota of {self._rate:g} tokens a second is used up"
            raise Shed(f"{used}; wait {wait:.3g} s, or ask for less", Shortage.QUOTA, wait)

    def spend(self, tokens: float) -> None:
        """Take out what has been worked for; it may come to owe."""
        self._level = self.level - tokens

    @contextlib.contextmanager
    def charge(self, tokens: float, paid: float = 0.0) -> Iterator[Charge]:
        """Around the work: its tokens are taken out, and those that are not `done` put back where it fails.

        Args:
            tokens: of the work.
            paid: of them, what has been taken out already, for reading; it is not put back.

        Raises:
            Shed: there are not so many.
        """
        self.look_ahead(tokens, paid)
        self.spend(tokens - paid)
        charge = Charge()
        try:
            yield charge
        except DeadlineExceeded:  # a caller's own, who leaves no sooner for it
            raise
        except Exception:  # which a caller's leaving is not
            self._level = min(self._capacity, self.level + tokens - max(charge.done, paid))
            raise


class Quotas:
    """A bucket for each client: of those that have called last, and of those for whom something is being worked on."""

    def __init__(self, rate: float, burst_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Every bucket is full.

        Args:
            rate: tokens a second.
            burst_seconds: that can be saved up.
            clock: seconds, monotonic.
        """
        self._rate = rate
        self._capacity = rate * burst_seconds
        self._clock = clock
        self._kept = OrderedDict[str, Bucket]()  # who has not called for longest comes first
        # And those that calls under way hold, of clients forgotten meanwhile.
        self._alive = WeakValueDictionary[str, Bucket]()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, name: str) -> Bucket:
        """The bucket of a client."""
        bucket = self._kept.get(name)
        if bucket is not None:
            self._kept.move_to_end(name)
            return bucket
        bucket = self._alive.get(name)
        if bucket is None:
            bucket = self._alive[name] = Bucket(self._rate, self._capacity, self._clock)
        while len(self._kept) >= MOST_BUCKETS:
            del self._kept[self._least_missed()]
        self._kept[name] = bucket
        return bucket

    def _least_missed(self) -> str:
        """Whose bucket has most in it: a full one says nothing that a new one would not, and after a while without calls it is full."""
        oldest = itertools.islice(self._kept.items(), OLDEST)
        return max(oldest, key=lambda each: each[1].level)[0]


def quotas_of(config: Config) -> Quotas | None:
    """What the options ask for; None where no client has a quota."""
    rate = config.quota_tokens_per_second
    return None if rate is None else Quotas(rate, config.quota_burst_seconds)


# Of the call that the current task answers, and those that it starts; set where it is known who calls.
_bucket: contextvars.ContextVar[Bucket | None] = contextvars.ContextVar("bucket", default=None)
FREE: AbstractContextManager[Charge | None] = contextlib.nullcontext()


def on_account_of(bucket: Bucket) -> None:
    """From here on this task, and those that it starts, work for the client with this bucket."""
    _bucket.set(bucket)


def charge(tokens: float, read: float = 0.0) -> AbstractContextManager[Charge | None]:
    """Around work on so many tokens, for whoever called. Entering raises Shed where the quota has not so many; None: it has none.

    Args:
        tokens: to be computed.
        read: for how many `has_read` has charged; reading alone may have cost more than what is computed of it.
    """
    bucket, paid = _bucket.get(), read / READING
    return FREE if bucket is None else bucket.charge(max(tokens, paid), paid)


def applies() -> bool:
    """Whether whoever called has a quota."""
    return _bucket.get() is not None


def look_ahead(about: float) -> None:
    """Refuse, before they are read, about so many tokens for which the quota of whoever called has not even half. Raises Shed."""
    bucket = _bucket.get()
    if bucket is not None:
        bucket.look_ahead(about / 2)


def least_tokens(characters: int) -> int:
    """Return the tokens, of those that are computed, that reading so many characters costs at least."""
    return characters // (READ_CHARACTERS * READING)


def will_read(characters: int) -> None:
    """Charge the caller for characters that are about to be read, before they keep a thread busy."""
    _spend_reading(characters / READ_CHARACTERS)


def has_read(tokens: int, characters: int = 0) -> float:
    """Charge the caller for tokens that were read, beyond the characters that `will_read` charged for.

    Returns:
        The tokens read for which both have charged.
    """
    charged = characters / READ_CHARACTERS
    _spend_reading(max(0.0, tokens - charged))
    return max(charged, tokens)


def _spend_reading(tokens: float) -> None:
    bucket = _bucket.get()
    if bucket is not None:
        bucket.spend(tokens / READING)
