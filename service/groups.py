"""The items of one request in the batcher: answered together, and what they hold once nobody waits for them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headlight.runtime.items import EncodeItem, ItemResult
from service.lanes import Entry
from service.permits import Permit

if TYPE_CHECKING:
    from service.spans import RequestSpans


class Answer(NamedTuple):
    """A group's results in the order of its items, and where its time went."""

    results: list[ItemResult]
    queue_ns: int  # from arrival to the start of the last of its batches
    infer_ns: int  # summed over the batches that carried its items


@dataclasses.dataclass(slots=True, eq=False)
class Group:
    """A request's items, answered together: one future, however many items."""

    future: asyncio.Future[Answer]
    results: list[ItemResult | None]
    missing: int
    queue_ns: int = 0
    infer_ns: int = 0
    entries: list[Entry[Slot]] = dataclasses.field(default_factory=list)
    computing: int = 0  # tokens in an engine now
    kept: list[Permit] = dataclasses.field(default_factory=list)
    spans: RequestSpans | None = None

    def delivered(self, count: int) -> None:
        """So many more items have run, and `results` has what came of them, unless the group has failed."""
        self.missing -= count
        if self.missing == 0 and not self.future.done():
            results = [result for result in self.results if result is not None]
            self.future.set_result(Answer(results, self.queue_ns, self.infer_ns))

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


def by_group(entries: Iterable[Entry[Slot]]) -> dict[Group, list[Entry[Slot]]]:
    """What each request has of a batch: what is done once for each is not done again for each of its texts."""
    found: dict[Group, list[Entry[Slot]]] = {}
    for entry in entries:
        found.setdefault(entry.value.group, []).append(entry)
    return found


def tokens_of(entries: Iterable[Entry[Slot]]) -> int:
    """Tokens, padding excluded."""
    return sum([entry.length for entry in entries])
