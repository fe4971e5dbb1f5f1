"""Batches for a complete list; a service, whose items arrive one by one, has `headlight_service.core.scheduler.lanes`."""

from __future__ import annotations

from collections.abc import Sequence

BATCH_TOKENS = 512  # padded tokens in one batch of one thread; `make tune` finds the best for a machine
BATCH_SQUARES = 1 << 20  # batch x length^2 in one batch where attention is asked for


def plan(lengths: Sequence[int], *, squared: bool, tokens: int = BATCH_TOKENS) -> list[list[int]]:
    """Batches of near lengths under the token budget (or the batch x length^2 budget): lists of indices, longest first."""
    budget = BATCH_SQUARES if squared else tokens
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        first = lengths[batches[-1][0]] if batches else 0
        cost = first * first if squared else first
        if batches and (len(batches[-1]) + 1) * cost <= budget:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
