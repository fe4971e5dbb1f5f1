"""Comparison of a query with passages."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from headlight.runtime.comparison.comparison_layout import ComparisonLayout, Head
from headlight.runtime.comparison.passage_comparison import ComparisonNumbers, PassageNumbers
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.runtime.plans.plan import Items, Plan, waves


def compare(
    layout: ComparisonLayout,
    items: Sequence[EncodeItem],
    scores: Selection,
    head: Head,
    *,
    most_tokens: int = sys.maxsize,
) -> Plan[list[PassageNumbers]]:
    """Return the numbers of the passages, in the order of the answer.

    Args:
        layout: what to compute of the query and of each passage.
        items: those of the query and of the passages, or of the pairs; see
            `ComparisonLayout.items`.
        scores: selects what gives a score alone: pooled vectors, or of pairs their logits.
        head: the layers behind pooling.
        most_tokens: of one wave.
    """
    numbers = ComparisonNumbers(layout, head)
    numbers.take_whole((yield Items(items)))
    for wave in waves(items, layout.occluded, scores, most_tokens):
        numbers.take_hidden((yield wave))
    for wave in waves(items, numbers.divide(), scores, most_tokens):
        numbers.take_hidden((yield wave))
    return numbers.passages()
