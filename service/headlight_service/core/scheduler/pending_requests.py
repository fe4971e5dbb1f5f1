"""The items of one request in the batcher: answered together, and what they hold once nobody waits for them."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight_service.core.admission.permits import Permit
from headlight_service.core.scheduler.batch_halving import Outcome
from headlight_service.core.scheduler.lanes import Entry

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace


class Answer(NamedTuple):
    """A group's results in the order of its items, and where its time went."""

    results: list[ItemResult]
    queue_ns: int  # from arrival to the start of the first of its batches
    infer_ns: int  # from then until the last of them was done


@dataclasses.dataclass(slots=True, eq=False)
class Group:
    """A request's items, answered together: one future, however many items. Times are seconds on the batcher's clock."""

    future: asyncio.Future[Answer]
    results: list[ItemResult | None]
    missing: int
    arrived: float
    first_begun: float = math.inf  # of its batches that have run
    last_done: float = 0.0
    entries: list[Entry[Slot]] = dataclasses.field(default_factory=list)
    computing: int = 0  # tokens in an engine now
    kept: list[Permit] = dataclasses.field(default_factory=list)
    spans: RequestTrace | None = None

    def delivered(self, count: int, begun: float, done: float) -> None:
        """So many more items have run, and `results` has what came of them, unless the group has failed."""
        self.missing -= count
        self.first_begun, self.last_done = min(self.first_begun, begun), max(self.last_done, done)
        if self.missing == 0 and not self.future.done():
            results = [result for result in self.results if result is not None]
            queued, inferred = self.first_begun - self.arrived, self.last_done - self.first_begun
            self.future.set_result(Answer(results, int(queued * 1e9), int(inferred * 1e9)))

    def fail(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def abandon(self, tokens: Permit, outputs: Permit | None) -> None:
        """Nobody waits any more. An engine cannot be stopped, so what is in one holds its place and memory until it is done."""
        if self.computing:
            self.kept.append(tokens.split(self.computing))
            if outputs is not None:
                self.kept.append(outputs.split(outputs.amount))

    def begun(self, tokens: int) -> None:
        self.computing += tokens

    def ended(self, tokens: int) -> None:
        self.computing -= tokens
        if not self.computing:
            for permit in self.kept:
                permit.give_back()
            self.kept.clear()


class Slot(NamedTuple):
    """An item's place in its group."""

    group: Group
    place: int
    item: EncodeItem


class Members:
    """The requests that have a part in a batch. What is done once for each is not done again for each of its items."""

    def __init__(self, entries: Sequence[Entry[Slot]]) -> None:
        """Those of a batch, in its order."""
        self._entries = entries
        self._own: dict[Group, list[int]] = {}  # the lengths of what each has in it
        for entry in entries:
            self._own.setdefault(entry.value.group, []).append(entry.length)

    @property
    def items(self) -> list[EncodeItem]:
        return [entry.value.item for entry in self._entries]

    def begun(self) -> None:
        """An engine has the batch."""
        for group, lengths in self._own.items():
            group.begun(sum(lengths))

    def ended(self) -> None:
        """It no longer has."""
        for group, lengths in self._own.items():
            group.ended(sum(lengths))

    def fail(self, error: Exception) -> None:
        for group in self._own:
            group.fail(error)

    def deliver(self, outcomes: Sequence[Outcome], begun: float, done: float) -> bool:
        """Deliver what there is, and tell why those for whom there is nothing; False where it came to that."""
        complete = True
        for entry, outcome in zip(self._entries, outcomes, strict=True):
            group, place, _ = entry.value
            if isinstance(outcome, ItemResult):
                group.results[place] = outcome
            else:
                group.fail(outcome)
                complete = False
        for group, lengths in self._own.items():
            group.delivered(len(lengths), begun, done)
        return complete
