"""Waiting list of the process: requests that wait for queue tokens and answer bytes."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Literal

from headlight.refusals import Argument
from headlight.spec import PRIORITIES, Priority
from headlight_service.core.admission.estimates import WaitEstimate

# The field that asks for most of an answer, and a smaller choice; see `Prepared.what_fits`.
Fitting = tuple[str, Mapping[str, Argument]]
Smaller = Callable[[int], Fitting]
Lack = Literal["tokens", "answer"]  # what a request has no room for


@dataclasses.dataclass(slots=True, eq=False)
class Claim:
    """Room that a request waits for. It takes all of it at once.

    Attributes:
        estimate: of its model.
        tokens: queue tokens.
        answer_bytes: bytes of its answer; fewer, if a limit falls below them meanwhile.
        priority: the request's.
        admitted: called with the answer's bytes, with the lock held, by the thread that made room.
        begun: whether it is the next part of a request that has begun.
        smaller: called with the bytes that there is room for; see `Admission.take_output`.
        held_as: the priority that its tokens count for; None: its own.
    """

    estimate: WaitEstimate
    tokens: int
    answer_bytes: int
    priority: Priority
    admitted: Callable[[int], None]
    begun: bool = False
    smaller: Smaller | None = None
    held_as: Priority | None = None


# The requests of each model, with their numbers in the order of arrival.
_Queues = dict[WaitEstimate, dict[Claim, int]]


class WaitingList:
    """Requests in the order in which they are admitted. Every method needs the queue's lock.

    Interactive requests go first, and each priority in its order. A request that does not fit yet
    blocks those behind it, except interactive ones behind a bulk one, and except those of other
    models that fit into the tokens reserved for their model. Parts of requests that have begun wait
    as bulk, but go before the others: these requests hold answer bytes that the others may wait
    for.

    Attributes:
        count: requests that wait.
    """

    def __init__(self) -> None:
        self.count = 0
        self._arrivals = itertools.count()
        self._waiting: dict[tuple[bool, Priority], _Queues] = {
            (True, "bulk"): {},
            (False, "interactive"): {},
            (False, "bulk"): {},
        }

    def add(self, claim: Claim) -> None:
        """Let a request wait behind those of its kind."""
        queues = self._waiting[claim.begun, claim.priority]
        queues.setdefault(claim.estimate, {})[claim] = next(self._arrivals)
        self.count += 1

    def remove(self, claim: Claim) -> None:
        """Let a request wait no longer, if it does."""
        queues = self._waiting[claim.begun, claim.priority]
        queue = queues.get(claim.estimate, {})
        if claim in queue:
            del queue[claim]
            self.count -= 1
            if not queue:
                del queues[claim.estimate]

    def lower_answers(self, largest: int) -> None:
        """Let requests wait for so many bytes of their answers at most: no more is ever free."""
        for queues in self._waiting.values():
            for queue in queues.values():
                for claim in queue:
                    claim.answer_bytes = min(claim.answer_bytes, largest)

    def blocks(self, model: WaitEstimate, priority: Priority, *, may_overtake: bool) -> bool:
        """Return whether a new request would overtake one that waits.

        Args:
            model: the request's.
            priority: the request's.
            may_overtake: whether it may overtake requests of other models.
        """
        return any(
            (model in queues if may_overtake else queues)
            and (priority == "bulk" or other == "interactive")
            for (_, other), queues in self._waiting.items()
        )

    def next(self, lacks: Callable[[Claim, bool], Lack | None]) -> Claim | None:
        """Return the next request to admit; None: the first ones do not fit yet.

        Args:
            lacks: returns what a request has no room for. Its second argument is whether the
                request may take tokens that are not reserved for its model.
        """
        blocked: dict[Priority, set[WaitEstimate]] = {each: set() for each in PRIORITIES}
        answers_are_full = False
        for (_, priority), queues in self._waiting.items():
            for model, first in _heads(queues):
                ahead = blocked[priority]
                if model in ahead or (answers_are_full and priority == "bulk"):
                    continue
                lack = lacks(first, not ahead)
                if lack is None:
                    return first
                if lack == "answer" and priority == "interactive":
                    return None
                answers_are_full = answers_are_full or lack == "answer"
                for each in PRIORITIES if priority == "interactive" else ("bulk",):
                    blocked[each].add(model)
        return None


def _heads(queues: _Queues) -> list[tuple[WaitEstimate, Claim]]:
    """Return the first request of each model, in the order in which they came."""
    heads = [(next(iter(queue.items())), model) for model, queue in queues.items()]
    heads.sort(key=lambda each: each[0][1])
    return [(model, claim) for (claim, _), model in heads]
