"""Recovery of failed batches: too large for the memory, or without usable results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from headlight.errors import DeviceFull, HostFull, NotFinite
from headlight.runtime.encode_items import EncodeItem, ItemResult

log = logging.getLogger("headlight_service.core.scheduler.batch_halving")
Outcome = ItemResult | DeviceFull | NotFinite
Encode = Callable[[Sequence[EncodeItem]], list[ItemResult]]


class Run(Protocol):
    """Function that encodes one batch, on all threads if it is `wide` and they are available.

    Raises EngineError, or DeviceFull.
    """

    def __call__(self, items: Sequence[EncodeItem], *, wide: bool = False) -> list[ItemResult]: ...


def rescued(
    error: DeviceFull | NotFinite, run: Encode, items: Sequence[EncodeItem]
) -> list[Outcome]:
    """Return the results that a failed batch has; if memory is short, run each half of it.

    A half of a GPU's batch is not divided again. If the process is short of memory, a half that
    fails is divided again if the other half succeeds. That finds an item that is too large, and no
    neighbour fails with it. If both halves fail, all their items do.

    Args:
        error: error of the batch.
        run: encodes one batch.
        items: items of the batch, at least one.

    Returns:
        For each item its result, or the error of its half or of its own numbers.

    Raises:
        Exception: any other error of `run`; if a half raises it, it concerns the whole batch.
    """
    if isinstance(error, NotFinite):
        return _finite(error)
    if len(items) == 1:
        return [_bare(error)]
    log.warning(
        "a batch is too large for the memory; running its halves",
        extra={"event": "batch_halved", "items": len(items)},
    )
    return _halves(run, items)


def _halves(run: Encode, items: Sequence[EncodeItem]) -> list[Outcome]:
    middle = len(items) // 2
    halves = (items[:middle], items[middle:])
    halved = [_outcomes(run, half) for half in halves]
    one_fits = not all(isinstance(outcomes[0], DeviceFull) for outcomes in halved)
    result: list[Outcome] = []
    for half, outcomes in zip(halves, halved, strict=True):
        again = one_fits and isinstance(outcomes[0], HostFull) and len(half) > 1
        result += _halves(run, half) if again else outcomes
    return result


def _outcomes(run: Encode, items: Sequence[EncodeItem]) -> list[Outcome]:
    try:
        return list(run(items))
    except NotFinite as error:
        return _finite(error)
    except DeviceFull as error:
        return [_bare(error)] * len(items)


def _bare(error: DeviceFull) -> DeviceFull:
    """Return an error without frames and causes, which hold the batch."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def _finite(error: NotFinite) -> list[Outcome]:
    """Return the finite results of a batch, with an error for each other item."""
    alone = NotFinite(error.message)  # without the results of others
    return [alone if result is None else result for result in error.results]
