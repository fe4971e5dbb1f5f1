"""A batch that the memory of a GPU does not hold, in two halves."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headlight.errors import DeviceFull
from headlight.runtime.items import EncodeItem, ItemResult

log = logging.getLogger("service.batcher")
Outcome = ItemResult | DeviceFull


def run_halved(run: Callable[[Sequence[EncodeItem]], list[ItemResult]], items: Sequence[EncodeItem]) -> list[Outcome]:
    """Run a batch; where the device's memory is full, each half of it, once.

    Args:
        run: encodes one batch.
        items: at least one.

    Returns:
        For each item its result, or why the half that it was in had none.

    Raises:
        Exception: whatever else `run` raises; of a half, it concerns the whole batch.
    """
    try:
        return list(run(items))
    except DeviceFull as error:
        if len(items) == 1:
            return [error.with_traceback(None)]  # whose frames hold the batch
    log.warning(
        "a batch is too large for the GPU's memory; running its halves",
        extra={"event": "batch_halved", "items": len(items)},
    )
    middle = len(items) // 2
    found: list[Outcome] = []
    for half in (items[:middle], items[middle:]):
        try:
            found += run(half)
        except DeviceFull as error:
            found += [error.with_traceback(None)] * len(half)
    return found
