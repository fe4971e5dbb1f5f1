"""Titles of pictures of one head, with its kind in the shown text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from headlight.analysis.head_kinds import DECIDES, Kind, called, spread_of
from headlight.results import Floats

# The same thresholds and words as in headlight/web/kinds.js.
KIND_LABELS: Mapping[Kind, str] = {
    "self": "the token itself",
    "previous": "previous token",
    "next": "next token",
    "delimiter": "special tokens",
    "uniform": "uniform",
}
# In a shorter text, half of the weight is less than twice the share that uniform attention has on
# two special tokens.
FEWEST_TOKENS = 8


def kind_label(weights: Floats, special: Sequence[bool]) -> str:
    """Return what a head attends to in one text, in words; "" if it is of no known kind.

    The rule is that of `headlight.analysis.head_kinds.called`, on one text.

    Args:
        weights: float32 [n, n], the whole map; below FEWEST_TOKENS it has no kind.
        special: whether each of the n tokens is special.
    """
    count = len(weights)
    if count < FEWEST_TOKENS:
        return ""
    rows = weights.astype(np.float64)
    shares = {
        "self": np.trace(rows) / count,
        "previous": np.trace(rows, -1) / (count - 1),
        "next": np.trace(rows, 1) / (count - 1),
        "special": rows[:, np.array(special)].sum() / count,
    }
    kind, _ = called({name: float(shares[name]) for name in DECIDES.values()}, spread_of(rows))
    return KIND_LABELS.get(kind, "")


def map_title(layer: int, head: int, weights: Floats, special: Sequence[bool]) -> str:
    """Return a title, such as "layer 1, head 3: previous token, in this text".

    Arguments as of `kind_label`; layer and head count from 0.
    """
    kind = kind_label(weights, special)
    return f"layer {layer}, head {head}" + (f": {kind}, in this text" if kind else "")
