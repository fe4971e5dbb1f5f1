"""Amounts of something that runs out, given out in permits."""

from __future__ import annotations

from types import TracebackType


class Pool:
    """An amount of something, given out in permits.

    Attributes:
        limit: how much there is.
        held: how much of it is given out.
    """

    __slots__ = ("_whole", "held", "limit")

    def __init__(self, limit: int, whole: Pool | None = None) -> None:
        """Nothing is given out; what will be counts for `whole` too, where this is a part of it."""
        self.held = 0
        self.limit = limit
        self._whole = whole

    @property
    def free(self) -> int:
        """How much can still be given out."""
        free = self.limit - self.held
        return free if self._whole is None else min(free, self._whole.free)

    def take(self, amount: int) -> Permit:
        """A permit; the caller has seen to it that so much is free."""
        self.hold(amount)
        return Permit(self, amount)

    def hold(self, amount: int) -> None:
        """Count so much more as given out; less, where negative."""
        self.held += amount
        if self._whole is not None:
            self._whole.hold(amount)


class Permit:
    """The right to so much of a pool. A context manager: leaving gives it back."""

    __slots__ = ("_pool", "amount")

    def __init__(self, pool: Pool, amount: int) -> None:
        self._pool = pool
        self.amount = amount

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Give back what is left of it."""
        self._pool.hold(-self.amount)
        self.amount = 0

    def split(self, amount: int) -> Permit:
        """A part of it as a permit of its own, for one who holds on longer."""
        self.amount -= amount
        return Permit(self._pool, amount)
