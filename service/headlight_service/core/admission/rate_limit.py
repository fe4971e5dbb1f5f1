"""Rate limiter: a token bucket for each client, in tokens of the model per second.

A bucket fills at that rate, up to `--quota-burst-seconds` of it. Tokenising is always charged:
otherwise the service would tokenise texts for free for a client that is always refused. Tokenising
16 tokens costs as much as computing 1. The rest is charged before the request is queued. If a
request fails or is shed, tokens that were not computed are put back. They stay charged if the
client disconnects or the deadline passes. A request larger than the whole bucket needs a full one,
which then owes the rest.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from weakref import WeakValueDictionary

from headlight.reasons import Reason
from headlight_service.config.options import Config
from headlight_service.core.admission.admission_control import SHORTEST_RETRY_SECONDS
from headlight_service.core.admission.shed_error import Shed, Shortage

# Tokens that are tokenised for the price of computing one, whose tokenising is included.
TOKENIZED_PER_COMPUTED = 16
# Characters, prompts included, that are read for the price of tokenising one token. Usual text has
# 3 to 6 a token, so its tokens set the price; 131,072 line breaks, 3 tokens, cost as much CPU time
# as 16,384 tokens.
CHARACTERS_PER_TOKENIZED = 8
MOST_BUCKETS = 10_000  # the names come from certificates, and there may be any number of them
OLDEST = 8  # least recent clients, from which one is chosen to be forgotten
LIKE = 0.9  # estimate of a request that is like another, or larger, as a part of the other's
SLACK = 1e-6  # tokens, for the rounding of sums


class Bucket:
    """Token bucket of one client. Called from any thread."""

    __slots__ = (
        "__weakref__",
        "_at",
        "_capacity",
        "_clock",
        "_level",
        "_lock",
        "_rate",
        "_refused",
    )

    def __init__(self, rate: float, capacity: float, clock: Callable[[], float]) -> None:
        """Start full.

        Args:
            rate: tokens per second.
            capacity: most tokens that it holds.
            clock: monotonic clock, in seconds.
        """
        self._rate = rate
        self._capacity = self._level = capacity
        self._clock = clock
        self._at = clock()
        # Estimate of the request that was refused last, and the tokens that it needed.
        self._refused = math.inf, 0.0
        self._lock = threading.RLock()

    @property
    def level(self) -> float:
        """Tokens left; negative while the bucket owes some."""
        with self._lock:
            now = self._clock()
            self._level = min(self._capacity, self._level + (now - self._at) * self._rate)
            self._at = now
            return self._level

    def check(self, tokens: float, paid: float = 0.0) -> None:
        """Refuse so many tokens if there are not enough.

        Args:
            tokens: tokens of a request.
            paid: the part already charged; a repeated request is charged for it again.

        Raises:
            Shed: with the seconds until there are enough, without other requests.
        """
        lacking = min(tokens, self._capacity) - self.level
        if lacking - paid > SLACK:
            raise self._shed(lacking / self._rate)

    def _shed(self, seconds: float) -> Shed:
        wait = max(SHORTEST_RETRY_SECONDS, math.ceil(1000 * seconds) / 1000)
        return Shed(Reason.QUOTA, Shortage.QUOTA, wait, rate=f"{self._rate:g}", wait=f"{wait:.3g}")

    def check_early(self, estimate: float) -> None:
        """Refuse a request of about so many tokens before it is read.

        There must be half of them. If one like it was refused, there must be as many as that one
        needed: a client that tries again at once would spend all that it saves on reading.

        Raises:
            Shed: as `check` does.
        """
        with self._lock:
            refused, needed = self._refused
            self.check(max(estimate / 2, needed if estimate >= LIKE * refused else 0.0))

    def charge(self, tokens: float, paid: float = 0.0, estimate: float = math.inf) -> None:
        """Charge a request's tokens except those that are `paid`.

        Args:
            tokens: tokens of the request.
            paid: the part already charged.
            estimate: the estimate that `check_early` was given; infinity: there was none.

        Raises:
            Shed: as `check` does.
        """
        with self._lock:
            try:
                self.check(tokens, paid)
            except Shed:
                if estimate < math.inf:
                    self._refused = estimate, tokens
                raise
            self.spend(tokens - paid)
            if estimate >= LIKE * self._refused[0]:
                self._refused = math.inf, 0.0

    def spend(self, tokens: float) -> None:
        """Take out tokens; the level may fall below 0. A negative number puts tokens back."""
        with self._lock:
            self._level = self.level - tokens


class Quotas:
    """Token buckets of the recent clients, and of those with a request under way."""

    def __init__(
        self, rate: float, burst_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start with every bucket full.

        Args:
            rate: tokens per second.
            burst_seconds: seconds of the rate that a bucket can hold.
            clock: monotonic clock, in seconds.
        """
        self._rate = rate
        self._capacity = rate * burst_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept = OrderedDict[str, Bucket]()  # least recent client first
        # Those in `_kept`, and the forgotten clients' buckets that requests under way still hold.
        self._alive = WeakValueDictionary[str, Bucket]()

    def of(self, name: str) -> Bucket:
        """Return the bucket of a client."""
        with self._lock:
            bucket = self._alive.get(name)
            if bucket is None:
                bucket = self._alive[name] = Bucket(self._rate, self._capacity, self._clock)
            self._kept.pop(name, None)
            if len(self._kept) >= MOST_BUCKETS:  # forget the fullest: a full one equals a new one
                oldest = itertools.islice(self._kept, OLDEST)
                del self._kept[max(oldest, key=lambda each: self._kept[each].level)]
            self._kept[name] = bucket
            return bucket


def quotas_of(config: Config) -> Quotas | None:
    """Return the rate limiter of the options; None: no client has a quota."""
    rate = config.quota_tokens_per_second
    return None if rate is None else Quotas(rate, config.quota_burst_seconds)
