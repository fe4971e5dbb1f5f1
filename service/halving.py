"""A batch that does not give all its items results: one beyond the memory of a GPU, in two halves; one in which some overflow."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from headlight.errors import DeviceFull, EngineError, NotFinite
from headlight.runtime.items import EncodeItem, ItemResult

log = logging.getLogger("service.batcher")
Outcome = ItemResult | DeviceFull | EngineError


def run_halved(run: Callable[[Sequence[EncodeItem]], list[ItemResult]], items: Sequence[EncodeItem]) -> list[Outcome]:
    """Run a batch; where the device's memory is full, each half of it, once.

    Args:
        run: encodes one batch.
        items: at least one.

    Returns:
        For each item its result, or why it has none: the half that it was in, or its own numbers.

    Raises:
        Exception: whatever else `run` raises; of a half, it concerns the whole batch.
    """
    try:
        return _outcomes(run, items)
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
            found += _outcomes(run, half)
        except DeviceFull as error:
            found += [error.with_traceback(None)] * len(half)
    return found


def _outcomes(run: Callable[[Sequence[EncodeItem]], list[ItemResult]], items: Sequence[EncodeItem]) -> list[Outcome]:
    try:
        return list(run(items))
    except NotFinite as error:
        alone = EngineError(error.message)  # without the results of others
        return [alone if result is None else result for result in error.results]
