"""Batches of similar lengths: planning, padding and rounding to few sizes.

Some providers compile a graph for every shape; with few shapes, all are soon compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headlight.outputs.registry import ROWS
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection
from headlight.runtime.values import Arrays, Ids, Marks

BATCH_TOKENS = 512  # padded tokens in one batch of one thread; `make tune` finds the best value
BATCH_SQUARES = 1 << 20  # batch x length^2 in one batch, if attention is requested


class Rounding(NamedTuple):
    """The rule for a batch's padded length. Padding changes no number, because it is masked.

    Attributes:
        multiple: a batch's length is a multiple of this; 1: that of its longest item.
        most: tokens that the model takes. Learned positions have no row beyond it, so padding stops
            there.
    """

    multiple: int
    most: int

    def up(self, length: int) -> int:
        """Return a batch's padded length, given the `length` of its longest item."""
        return max(length, min(-(-length // self.multiple) * self.multiple, self.most))


AS_LONG = Rounding(1, 0)  # as the longest item


def pad(sequences: Sequence[Ids], rounding: Rounding = AS_LONG) -> tuple[Ids, Ids]:
    """Right-pad to the longest, rounded.

    Returns ids int64 [B, S] (padding 0; of one sequence, perhaps its own memory) and mask int64
    [B, S] (1 for a token).
    """
    if len(sequences) == 1 and rounding.up(length := len(sequences[0])) == length:
        # After a pause each call of NumPy is slow: a lone caller's text is padded in a third of
        # the time.
        return sequences[0][None], np.ones((1, length), dtype=np.int64)
    lengths = list(map(len, sequences))
    mask = np.arange(rounding.up(max(lengths))) < np.array(lengths)[:, None]
    ids = np.zeros(mask.shape, dtype=np.int64)
    ids[mask] = np.concatenate(sequences)  # row by row
    return ids, mask.astype(np.int64)


def plan(lengths: Sequence[int], *, squared: bool, tokens: int = BATCH_TOKENS) -> list[list[int]]:
    """Return batches of similar lengths under the token budget, as lists of indices, longest first.

    With `squared`, the budget is of batch x length^2. The service has its own planner, because its
    items arrive one by one: `headlight_service.core.scheduler.lanes`.
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


def all_finite(outputs: Arrays) -> bool:
    """Return whether the rows of a batch are finite, padding included.

    Any non-finite number of a batch shows in them.
    """
    checked = (outputs[name] for name in ROWS if name in outputs)
    return all(bool(np.isfinite(numbers).all()) for numbers in checked)


def reads(selection: Selection, name: str) -> bool:
    """Return whether an output is computed from one of the graph's."""
    return any(name in output.reads for output, _ in selection.outputs())


def finite_rows(items: Sequence[EncodeItem], outputs: Arrays) -> Marks:
    """Return the items whose rows are finite: bool [B].

    An item's padding, and outputs that only other items requested, do not count. Pooled vectors
    always do: all that an item has shows in them.
    """
    good = np.ones(len(items), np.bool_)
    for name in ROWS:
        if name not in outputs:
            continue
        finite = np.isfinite(outputs[name]).all(axis=-1)
        if finite.ndim > 1:
            lengths = np.array([len(item.ids) for item in items])
            finite = (finite | (np.arange(finite.shape[1]) >= lengths[:, None])).all(axis=1)
        unread = [name != "pooled" and not reads(item.selection, name) for item in items]
        good &= finite | np.array(unread)
    return good


def is_usable(item: EncodeItem, result: ItemResult, unit: bool) -> bool:
    """Return whether no vector that should have unit length has only zeros.

    Args:
        item: the item.
        result: its outputs. Spans are sums yet; `headlight.runtime.spans.span_items.merge` checks
            their vectors.
        unit: whether pooled vectors have unit length unless an item requests otherwise.
    """
    chosen = item.selection.outputs()
    return all(output.usable(choice, result, unit) for output, choice in chosen)
