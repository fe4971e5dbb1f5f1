"""Kinds of heads in early, middle and deep layers."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from headlight.analysis.head_kinds import Head, Kind
from headlight.spec import STATISTICS

# Names of the groups of a model, by their number: one group for each third of its layers.
NAMES = {1: ("all",), 2: ("early", "deep"), 3: ("early", "middle", "deep")}


@dataclasses.dataclass(frozen=True, slots=True)
class LayerGroup:
    """The heads of some neighbouring layers.

    Attributes:
        name: "early", "middle" or "deep"; "all" of a model of one layer.
        layers: their indices.
        kinds: number of heads of each kind that occurs.
        spread: mean spread of the heads; see `Head`.
        statistics: means over the heads, by the names of `headlight.spec.STATISTICS`; NaN if all
            are unknown.
    """

    name: str
    layers: tuple[int, ...]
    kinds: Mapping[Kind, int]
    spread: float
    statistics: Mapping[str, float]


def by_layer(heads: Sequence[Head]) -> list[LayerGroup]:
    """Return the heads of a model in thirds of its layers, the first one early."""
    layers = sorted({head.layer for head in heads})
    names = NAMES[min(3, len(layers))]
    return [
        _group(name, tuple(part.tolist()), [head for head in heads if head.layer in part])
        for name, part in zip(names, np.array_split(np.array(layers), len(names)), strict=True)
    ]


def _group(name: str, layers: tuple[int, ...], heads: Sequence[Head]) -> LayerGroup:
    table = np.array([[head.statistics[each] for each in STATISTICS] for head in heads])
    known = np.ma.masked_invalid(table).mean(axis=0)
    means = np.ma.filled(known, np.nan).tolist()
    return LayerGroup(
        name,
        layers,
        dict(collections.Counter(head.kind for head in heads)),
        float(np.mean([head.spread for head in heads])),
        dict(zip(STATISTICS, means, strict=True)),
    )
