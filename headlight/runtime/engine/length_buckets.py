"""Batches of near lengths, padded, and rounded up to few sizes.

Where a provider compiles a graph for every shape, few shapes are soon all compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headlight.runtime.values import Ids

BATCH_TOKENS = 512  # padded tokens in one batch of one thread; `make tune` finds the best for a machine
BATCH_SQUARES = 1 << 20  # batch x length^2 in one batch where attention is asked for


class Rounding(NamedTuple):
    """How many tokens a batch is padded to. Padding changes no number: masked tokens are not seen.

    Attributes:
        multiple: batches are as long as a multiple of so many tokens; 1: as their longest item.
        most: tokens that the model takes: learned positions have no row behind it, so nothing is padded beyond.
    """

    multiple: int
    most: int

    def up(self, length: int) -> int:
        """The tokens that a batch has whose longest item has `length`."""
        return max(length, min(-(-length // self.multiple) * self.multiple, self.most))


AS_LONG = Rounding(1, 0)  # as the longest item


def pad(sequences: Sequence[Ids], rounding: Rounding = AS_LONG) -> tuple[Ids, Ids]:
    """Right-pad to the longest, rounded. Returns ids int64 [B, S] (padding 0) and mask int64 [B, S] (1 for a token)."""
    lengths = list(map(len, sequences))
    here = np.arange(rounding.up(max(lengths))) < np.array(lengths)[:, None]
    ids = np.zeros(here.shape, dtype=np.int64)
    ids[here] = np.concatenate(sequences)  # row by row
    return ids, here.astype(np.int64)


def plan(lengths: Sequence[int], *, squared: bool, tokens: int = BATCH_TOKENS) -> list[list[int]]:
    """Batches of near lengths under the token budget (or the batch x length^2 budget): lists of indices, longest first.

    A service, whose items arrive one by one, has `headlight_service.core.scheduler.lanes`.
    """
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
