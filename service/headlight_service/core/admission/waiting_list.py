"""Waiting list of the process: requests that wait for queue tokens and answer bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from headlight.refusals import Argument
from headlight.spec import Priority
from headlight_service.core.admission.estimates import WaitEstimate

# The field that asks for most of an answer, and a smaller choice; see `Prepared.what_fits`.
Fitting = tuple[str, Mapping[str, Argument]]
Smaller = Callable[[int], Fitting]


@dataclasses.dataclass(slots=True, eq=False)
class Wanted:
    """Room that a request waits for. It takes all of it at once.

    Attributes:
        estimate: of its model.
        tokens: queue tokens.
        answer_bytes: bytes of its answer.
        priority: the request's.
        admitted: called with the lock held, by the thread that made room.
        begun: whether it is the next part of a request that has begun.
        smaller: called with the bytes that there is room for; see `Admission.take_output`.
        held_as: the priority that its tokens count for; None: its own.
    """

    estimate: WaitEstimate
    tokens: int
    answer_bytes: int
    priority: Priority
    admitted: Callable[[], None]
    begun: bool = False
    smaller: Smaller | None = None
    held_as: Priority | None = None


class WaitingList:
    """Requests in the order in which they are admitted. Every method needs the queue's lock.

    Interactive requests go first, and each priority in its order. A request that does not fit yet
    blocks those behind it, except interactive ones behind a bulk one. Parts of requests that have
    begun wait as bulk, but go before the others: these requests hold answer bytes that the others
    may wait for.

    Attributes:
        count: requests that wait.
    """

    def __init__(self) -> None:
        self.count = 0
        self._waiting: dict[tuple[bool, Priority], dict[Wanted, None]] = {
            (True, "bulk"): {},
            (False, "interactive"): {},
            (False, "bulk"): {},
        }

    def add(self, wanted: Wanted) -> None:
        """Let a request wait behind those of its kind."""
        self._waiting[wanted.begun, wanted.priority][wanted] = None
        self.count += 1

    def remove(self, wanted: Wanted) -> None:
        """Let a request wait no longer, if it does."""
        waiting = self._waiting[wanted.begun, wanted.priority]
        if wanted in waiting:
            del waiting[wanted]
            self.count -= 1

    def blocks(self, priority: Priority) -> bool:
        """Return whether a new request of this priority would overtake one that waits."""
        return any(
            waiting and (priority == "bulk" or other == "interactive")
            for (_, other), waiting in self._waiting.items()
        )

    def next(self, fits: Callable[[Wanted], bool]) -> Wanted | None:
        """Return the next request to admit; None: the first ones do not fit yet."""
        bulk_is_blocked = False
        for (_, priority), waiting in self._waiting.items():
            if not waiting or (bulk_is_blocked and priority == "bulk"):
                continue
            first = next(iter(waiting))
            if fits(first):
                return first
            if priority == "interactive":
                return None
            bulk_is_blocked = True
        return None
