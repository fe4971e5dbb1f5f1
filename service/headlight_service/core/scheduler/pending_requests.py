"""Pending requests: the items of one request in the scheduler, answered together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.engine.batches import Rounding
from headlight.spec import Priority
from headlight_service.core.scheduler.batch_halving import Outcome
from headlight_service.core.scheduler.lanes import Entry, LaneKey

if TYPE_CHECKING:
    from headlight_service.core.admission.request_budget import RequestBudget
    from headlight_service.telemetry.request_trace import RequestTrace


class Computed(NamedTuple):
    """A request's results in the order of its items, and its times."""

    results: list[ItemResult]
    queue_ns: int  # from arrival to the start of the first of its batches
    infer_ns: int  # from then until the last of them was done


class PendingRequest:
    """A request's items, answered together. Times are seconds on the scheduler's clock.

    All methods except `tell` are called with the scheduler's lock held.

    Attributes:
        missing: number of items without a result.
        over: whether the request's end is claimed.
        entries: its items in the queue.
    """

    __slots__ = (
        "_answer",
        "_first_begun",
        "_last_done",
        "_then",
        "arrived",
        "budget",
        "deadline",
        "entries",
        "flow",
        "items",
        "lane",
        "missing",
        "over",
        "priority",
        "results",
        "trace",
    )

    def __init__(
        self,
        model: str,
        items: Sequence[EncodeItem],
        deadline: float,
        priority: Priority,
        budget: RequestBudget,
        then: Callable[[Computed | Exception], None],
        trace: RequestTrace | None = None,
        flow: str = "",
    ) -> None:
        """Prepare a request for the queue.

        Args:
            model: key of the model; see `ServedModel.key`.
            items: at least one, all of one role.
            deadline: deadline on the clock; items that have not started by then are discarded.
            priority: interactive or bulk.
            budget: counts the tokens that an engine computes.
            then: called once, without the lock, with the results or the error.
            trace: spans of the request.
            flow: flows of a lane take turns; see `Lane`.
        """
        self.items = items
        self.flow = flow
        self.lane = LaneKey(model, items[0].role)
        self.deadline = deadline
        self.priority: Priority = priority
        self.trace = trace
        self.arrived = 0.0
        self.entries: list[Entry[Member]] = []
        self.results: list[ItemResult | None] = [None] * len(items)
        self.over = False
        self.budget = budget
        self._then = then
        self.missing = len(items)
        self._first_begun, self._last_done = math.inf, 0.0
        self._answer: Computed | Exception | None = None

    def enter(self, now: float, rounding: Rounding) -> list[Entry[Member]]:
        """Return its items for the queue, all of one age.

        The longest comes first: batches take them in order of length, and none mixes the longest
        with the shortest.
        """
        self.arrived = now
        lengths = [len(item.ids) for item in self.items]
        sizes = lengths if rounding.multiple == 1 else [rounding.up(length) for length in lengths]
        self.entries = [
            Entry(
                self.lane,
                Member(self, place, self.items[place]),
                lengths[place],
                sizes[place],
                now,
                self.deadline,
                self.priority,
                self.flow,
            )
            for place in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
        ]
        return self.entries

    @property
    def waits(self) -> bool:
        """Whether some of its items are still in the queue."""
        return any(entry.waiting for entry in self.entries)

    def delivered(self, begun: float, done: float) -> bool:
        """Record a batch that had some of its items; return whether this completes the request."""
        self._first_begun, self._last_done = (
            min(self._first_begun, begun),
            max(self._last_done, done),
        )
        if self.missing or self.over:
            return False
        results = [result for result in self.results if result is not None]
        queued, inferred = self._first_begun - self.arrived, self._last_done - self._first_begun
        self.entries = []  # none waits
        return self.claim_end(Computed(results, int(queued * 1e9), int(inferred * 1e9)))

    def claim_end(self, answer: Computed | Exception | None) -> bool:
        """End the request with an answer (None: cancelled); return True for the first caller only.

        `tell` hands over the first caller's answer.
        """
        if self.over:
            return False
        self.over = True
        self._answer = answer
        return True

    def tell(self) -> None:
        """Hand over the answer. Called without the lock."""
        answer, self._answer = self._answer, None
        self.results = []
        if answer is not None:
            self._then(answer)


class Member(NamedTuple):
    """Batch member: an item and its place in its request."""

    pending: PendingRequest
    place: int
    item: EncodeItem


class Members:
    """The requests that have items in a batch. With the scheduler's lock held."""

    def __init__(self, entries: Sequence[Entry[Member]]) -> None:
        """Find the requests of a batch's items, in the batch's order."""
        self._entries = entries
        self._tokens = tokens = dict[PendingRequest, int]()  # tokens of each request in the batch
        for entry in entries:
            pending = entry.value.pending
            tokens[pending] = tokens.get(pending, 0) + entry.length

    def begun(self) -> None:
        """Record that an engine has the batch."""
        for pending, tokens in self._tokens.items():
            pending.budget.began(tokens)

    def ended(self) -> None:
        """Record that the engine no longer has the batch."""
        for pending, tokens in self._tokens.items():
            pending.budget.ended(tokens)

    def fail(self, error: Exception) -> list[PendingRequest]:
        """Fail all the requests, and return those to notify."""
        return [pending for pending in self._tokens if pending.claim_end(error)]

    def deliver(
        self, outcomes: Sequence[Outcome], begun: float, done: float
    ) -> list[PendingRequest]:
        """Deliver results and errors of the items, and return the requests to notify."""
        over = []
        for entry, outcome in zip(self._entries, outcomes, strict=True):
            pending, place, _ = entry.value
            if not isinstance(outcome, ItemResult):
                if pending.claim_end(outcome):
                    over.append(pending)
            elif not pending.over:
                pending.results[place] = outcome
                pending.missing -= 1
        return over + [pending for pending in self._tokens if pending.delivered(begun, done)]


def tell(over: Sequence[PendingRequest]) -> None:
    """Notify requests of their end. Called without the lock."""
    for pending in over:
        pending.tell()
