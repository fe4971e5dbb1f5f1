"""Occlusion: the distance that a vector moves when each token is hidden."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from headlight.interface.similarity import similarity
from headlight.runtime.encode_items import EncodeItem, Selection
from headlight.runtime.plans.plan import Items, OccludedUnit, Plan, pooled_rows, waves
from headlight.runtime.values import Floats, Ids


class OcclusionNumbers(NamedTuple):
    """Numbers of an occlusion.

    Attributes:
        moved: float32 [m], the distance of the vector from that of the whole input.
        fall: float32 [m], the fall of the similarity to the target; None: there is none.
        similarity: that of the whole input to the target.
    """

    moved: Floats
    fall: Floats | None = None
    similarity: float = 0.0


def occlude(
    items: Sequence[EncodeItem],
    hidden: Ids,
    target: Floats | None,
    measure: str | None,
    vectors: Selection,
    *,
    most_tokens: int = sys.maxsize,
) -> Plan[OcclusionNumbers]:
    """Compare the vector of an input with its vectors with one token hidden.

    Args:
        items: the input; and the target, if that is a text.
        hidden: int64 [m], the tokens to hide one at a time, m >= 1.
        target: float32 [D], if it is a vector; None: a text, or none.
        measure: the similarity to the target; see `headlight.interface.similarity`.
        vectors: selects pooled vectors alone.
        most_tokens: of one wave.
    """
    rows = pooled_rows((yield Items(items)))
    whole = rows[0]
    if len(rows) > 1:
        target = rows[1]
    moved = list[float]()
    similarities = [] if target is None else similarity(measure, target, rows[:1])[0].tolist()
    units = (OccludedUnit(0, (token,)) for token in hidden.tolist())
    for wave in waves(items, units, vectors, most_tokens):
        rows = pooled_rows((yield wave))
        moved += np.linalg.norm(rows - whole, axis=1).tolist()
        if target is not None:
            similarities += similarity(measure, target, rows)[0].tolist()
    distances = np.array(moved, np.float32)
    if target is None:
        return OcclusionNumbers(distances)
    near, *rest = similarities
    return OcclusionNumbers(distances, np.float32(near) - np.array(rest, np.float32), near)
