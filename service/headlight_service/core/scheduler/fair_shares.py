"""Fair shares: whose batch is next if several models have items of one priority.

Start-time fair queueing (Goyal, Vin and Cheng, 1996) of slot time. The model with the least virtual
time goes first. Its batch adds the seconds of its slot, divided by the model's weight. They are
estimated when the batch begins and corrected when it ends. A model that had nothing waiting starts
at the current virtual time, so idle time gives no credit.

Plain data: no threads, no clock.
"""

from __future__ import annotations

import dataclasses

RATE_MEMORY = 0.9  # weight of the past at each batch in the slot time of a token: some ten batches


@dataclasses.dataclass(slots=True)
class _Share:
    """One model: its virtual time, its waiting items, and the tokens and seconds of its batches."""

    weight: float
    virtual: float
    waiting: int = 0
    tokens: float = 0.0
    seconds: float = 0.0


class FairShares:
    """The models of one priority, and the slot time that each has had.

    Two models with waiting items have had slot time by their weights, but for one batch of each.
    """

    def __init__(self) -> None:
        self._shares = dict[str, _Share]()
        self._now = 0.0  # virtual time: that of the last model that began a batch, as it began

    def open(self, model: str, weight: float) -> None:
        """Add a model, unless it is there."""
        self._shares.setdefault(model, _Share(weight, self._now))

    def close(self, model: str) -> None:
        """Forget a model."""
        self._shares.pop(model, None)

    def wait(self, model: str, items: int) -> None:
        """Count items that begin to wait, or with a negative number, no longer wait."""
        share = self._shares[model]
        if not share.waiting:
            share.virtual = max(share.virtual, self._now)
        share.waiting += items

    def virtual(self, model: str) -> float:
        """Return the virtual time of a model: the least goes first."""
        return self._shares[model].virtual

    def begin(self, model: str, tokens: int) -> float:
        """Charge a batch that begins, and return its estimated slot seconds."""
        share = self._shares[model]
        self._now = max(self._now, share.virtual)
        charged = tokens * share.seconds / share.tokens if share.tokens else 0.0
        share.virtual += charged / share.weight
        return charged

    def end(self, model: str, tokens: int, seconds: float, charged: float) -> None:
        """Charge a batch that ended after so many slot seconds, instead of the estimate."""
        share = self._shares[model]
        share.tokens = RATE_MEMORY * share.tokens + tokens
        share.seconds = RATE_MEMORY * share.seconds + seconds
        share.virtual += (seconds - charged) / share.weight
