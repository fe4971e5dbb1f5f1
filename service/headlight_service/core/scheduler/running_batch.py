"""Running batches: computation, time limit and report."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from headlight.errors import DeviceFull, NotFinite
from headlight.runtime.encode_items import EncodeItem
from headlight.spec import Priority
from headlight_service.core.scheduler.batch_halving import Outcome, Run, rescued
from headlight_service.core.scheduler.batch_policy import TakenSlot
from headlight_service.core.scheduler.lanes import Batch, LaneKey
from headlight_service.core.scheduler.pending_requests import Member, Members

# Tokens from which attention can take longer than all else: some six widths of a small model.
ATTENTION_LENGTH = 2048


class BatchReport(NamedTuple):
    """One batch that ran, for metrics and for the wait-time estimate."""

    lane: LaneKey
    priority: Priority
    items: int
    tokens: int
    padded_tokens: int
    seconds: float
    wide: bool  # on the threads of all slots


class RunningBatch(NamedTuple):
    """A batch from its start until its slot is free again."""

    batch: Batch[Member]
    members: Members
    slot: TakenSlot
    stall_allowance: float  # see the function

    @property
    def model(self) -> str:
        """Key of its model."""
        return self.batch.entries[0].lane.model

    def report(self, seconds: float) -> BatchReport:
        """Return the report of the batch after so many seconds."""
        batch, first = self.batch, self.batch.entries[0]
        sizes = (len(batch.entries), batch.total, batch.padded)
        return BatchReport(first.lane, first.priority, *sizes, seconds, self.slot.wide)


def begin(batch: Batch[Member], slot: TakenSlot, usual: int) -> RunningBatch:
    """Record that an engine has a batch; `usual`: see `stall_allowance`. With the lock held."""
    members = Members(batch.entries)
    members.begun()
    return RunningBatch(batch, members, slot, stall_allowance(batch, usual))


def stall_allowance(batch: Batch[Member], usual: int) -> float:
    """Return a batch's time limit for its heartbeat, as a multiple of that for `usual` tokens.

    A larger batch, such as one long text, gets proportionally more time. It also gets time for
    attention: as much again at ATTENTION_LENGTH, and more beyond it.
    """
    return batch.padded / usual * (1 + batch.longest / ATTENTION_LENGTH)


def compute(
    run: Run, items: Sequence[EncodeItem], *, wide: bool = False
) -> list[Outcome] | Exception:
    """Run a batch, and return the outcome of each item, or the error of all.

    An error holds this frame, so no variable here may hold the error.
    """
    try:
        try:
            return [*run(items, wide=wide)]
        except (DeviceFull, NotFinite) as error:
            return rescued(error, functools.partial(run, wide=wide), items)
    except Exception as error:
        return error
