"""Batches of near lengths: planned, padded and rounded up to few sizes, and their outputs cut apart.

Where a provider compiles a graph for every shape, few shapes are soon all compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headlight.runtime.attention.graph_selectors import Wanted
from headlight.runtime.encode_items import EncodeItem, ItemResult
from headlight.runtime.providers.session import Outputs
from headlight.runtime.values import Floats, Ids, Marks
from headlight.runtime.vectors.vector_forms import shape_rows

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


def all_finite(outputs: Outputs) -> bool:
    """Whether a batch's vectors are finite, padding and all: what is not finite anywhere is not finite in them."""
    pooled = bool(np.isfinite(outputs["pooled"]).all())
    return pooled and ("tokens" not in outputs or bool(np.isfinite(outputs["tokens"]).all()))


def finite_rows(items: Sequence[EncodeItem], outputs: Outputs) -> Marks:
    """Of which items they are: bool [B]. Company changes no item's: its padding and what others want do not count."""
    good = np.asarray(np.isfinite(outputs["pooled"]).all(axis=1))
    if "tokens" in outputs:
        finite = np.isfinite(outputs["tokens"]).all(axis=2)
        padding = np.arange(finite.shape[1]) >= np.array([len(item.ids) for item in items])[:, None]
        unwanted = np.array([not item.selection.tokens for item in items])
        good = good & ((finite | padding).all(axis=1) | unwanted)
    return good


def cut_out(
    outputs: Outputs,
    row: int,
    item: EncodeItem,
    pooled: Floats | None,
    wanted: Wanted | None,
) -> ItemResult:
    """One item's share of a batch's outputs, without padding, copied so that the batch's memory is let go.

    Args:
        outputs: of the graph.
        row: the item's place in the batch.
        item: what is wanted.
        pooled: its vector, as wanted.
        wanted: where attention or hidden states are.
    """
    n, selection = len(item.ids), item.selection
    rows = slice(n) if item.rows is None else item.rows
    attention = indices = scales = hidden = None
    if wanted is not None and selection.attention is not None:
        attention, indices, scales = wanted.reduced(row, outputs)
    if (states := selection.hidden) is not None:
        tokens = slice(n) if item.states is None else item.states
        parts = [outputs[f"hidden_{layer}"][row, tokens] for layer in states.layers]
        hidden = np.stack(parts, dtype=states.spec.dtype, casting="same_kind")
    return ItemResult(
        pooled=pooled,
        tokens=shape_rows(outputs["tokens"][row, rows], selection.rows) if selection.tokens else None,
        attention=attention,
        hidden=hidden,
        indices=indices,
        scales=scales,
    )
