"""Whether a call is ended by its caller or by us: whatever works for it is cancelled alike."""

from __future__ import annotations

from contextvars import ContextVar


class Cut:
    """Of one call.

    Attributes:
        by_us: we have ended it, and whoever called may well be there still.
    """

    __slots__ = ("by_us",)

    def __init__(self) -> None:
        self.by_us = False


# Of the call that the current task answers, and those that it starts; None where we never end one early.
_cut: ContextVar[Cut | None] = ContextVar("cut", default=None)


def can_be_cut() -> Cut:
    """For the call of the current task, before it starts others: what to note it in where we end it."""
    cut = Cut()
    _cut.set(cut)
    return cut


def has_left() -> bool:
    """Whether it is the caller who has ended the call whose work is being cancelled."""
    cut = _cut.get()
    return cut is None or not cut.by_us
