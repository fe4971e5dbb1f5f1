"""Token buckets: how many tokens of the model's each client may have computed in a second.

A bucket fills at that rate, up to what `--quota-burst-seconds` lets it save up. Reading is taken
out whatever comes next: else texts would be read for nothing for a client that is always refused.
The rest is taken out before the request is queued. What was not computed is put back if the request
fails or is shed; if its caller leaves, or its deadline passes, it stays paid. A request larger than
the whole bucket needs a full one, and the bucket owes the rest.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

from headlight_service.config.options import Config
from headlight_service.core.admission.admission_control import SHORTEST_RETRY_SECONDS
from headlight_service.core.admission.shedding import Shed, Shortage

READING = 16  # tokens that are read for the price of one that is computed, reading included
# Characters that are read, prompts included, for the price of one token that is read. Usual text
# has 3 to 6 a token and costs what its tokens cost; 131,072 line breaks, 3 tokens, cost as much CPU
# time as 16,384 tokens.
READ_CHARACTERS = 8
MOST_BUCKETS = 10_000  # of names that certificates bring, of which there may be any number
OLDEST = 8  # clients that have not called for longest: among these one is chosen to be forgotten
SLACK = 1e-6  # tokens, for the rounding of sums


class Bucket:
    """What one client may still have computed. From any thread."""

    __slots__ = ("__weakref__", "_at", "_capacity", "_clock", "_level", "_lock", "_rate")

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
        self._lock = threading.RLock()

    @property
    def level(self) -> float:
        """Tokens left; less than none while it owes some."""
        with self._lock:
            now = self._clock()
            self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
            self._at = now
            return self._level

    def check(self, tokens: float, paid: float = 0.0) -> None:
        """Refuse so many tokens if there are not enough.

        Args:
            tokens: of a request.
            paid: of them, taken out already, as they will be again when the request is repeated.

        Raises:
            Shed: with the time after which there will be, if nothing else is asked for.
        """
        lacking = min(tokens, self._capacity) - self.level
        if lacking - paid > SLACK:
            wait = max(SHORTEST_RETRY_SECONDS, math.ceil(1000 * lacking / self._rate) / 1000)
            raise Shed(
                f"the quota of {self._rate:g} tokens a second is used up; wait {wait:.3g} s, or ask for less",
                Shortage.QUOTA,
                wait,
            )

    def charge(self, tokens: float, paid: float = 0.0) -> None:
        """Take out the tokens of a request but those that are `paid`. Raises Shed as `check`."""
        with self._lock:
            self.check(tokens, paid)
            self.spend(tokens - paid)

    def spend(self, tokens: float) -> None:
        """Take out what has been worked for; it may come to owe. Negative: put back what was not."""
        with self._lock:
            self._level = self.level - tokens


class Quotas:
    """A bucket for each client that has called lately, or for which something is worked on."""

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
        self._lock = threading.Lock()
        self._kept = OrderedDict[str, Bucket]()  # the client that has not called for longest first
        # Those, and those that requests under way hold, of clients forgotten meanwhile.
        self._alive = WeakValueDictionary[str, Bucket]()

    def of(self, name: str) -> Bucket:
        """Return the bucket of a client."""
        with self._lock:
            bucket = self._alive.get(name)
            if bucket is None:
                bucket = self._alive[name] = Bucket(self._rate, self._capacity, self._clock)
            self._kept.pop(name, None)
            if len(self._kept) >= MOST_BUCKETS:  # a full one says no more than a new one
                oldest = itertools.islice(self._kept, OLDEST)
                del self._kept[max(oldest, key=lambda each: self._kept[each].level)]
            self._kept[name] = bucket
            return bucket


def quotas_of(config: Config) -> Quotas | None:
    """Return what the options ask for; None: no client has a quota."""
    rate = config.quota_tokens_per_second
    return None if rate is None else Quotas(rate, config.quota_burst_seconds)
