from __future__ import annotations

import math

import numpy as np
import pytest

from headlight.analysis.head_analysis import Analysis, Importance
from headlight.analysis.head_kinds import Head, Kind
from headlight.analysis.layer_groups import by_layer
from headlight.cli.attention.heads_command import layers_text
from headlight.results import ModelRef
from headlight.spec import STATISTICS

REF = ModelRef("m", "1", "ab", "cpu", "fp32")
NUMBERS = dict.fromkeys(STATISTICS, 0.5)


def heads(layers: int, *kinds: Kind) -> list[Head]:
    return [
        Head(layer, head, kind, 0.6, 0.1 * layer, {**NUMBERS, "distance": float(layer)})
        for layer in range(layers)
        for head, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("layers", "groups"),
    [
        (1, [("all", (0,))]),
        (2, [("early", (0,)), ("deep", (1,))]),
        (4, [("early", (0, 1)), ("middle", (2,)), ("deep", (3,))]),
        (6, [("early", (0, 1)), ("middle", (2, 3)), ("deep", (4, 5))]),
    ],
)
def test_layers_are_in_thirds(layers: int, groups: list[tuple[str, tuple[int, ...]]]) -> None:
    assert [(group.name, group.layers) for group in by_layer(heads(layers, "self"))] == groups


def test_kinds_are_counted_and_numbers_are_means_of_each_group() -> None:
    early, middle, deep = by_layer(heads(6, "self", "other", "other"))
    assert early.kinds == middle.kinds == deep.kinds == {"self": 2, "other": 4}
    assert [group.statistics["distance"] for group in (early, middle, deep)] == [0.5, 2.5, 4.5]
    assert deep.spread == pytest.approx(0.45)


def test_unknown_statistics_are_left_out_of_the_mean() -> None:
    some = heads(1, "self", "self")
    some[0] = Head(0, 0, "self", 0.6, 0.5, {**NUMBERS, "special": math.nan})
    [group] = by_layer(some)
    assert group.statistics["special"] == 0.5
    [unknown] = by_layer(some[:1])
    assert math.isnan(unknown.statistics["special"])


def test_the_command_counts_the_kinds_that_occur() -> None:
    analysis = Analysis(tuple(heads(4, "previous", "other")), (9, 9), REF)
    assert layers_text(analysis).splitlines() == [
        "8 heads, 2 texts",
        "layers         heads  previous  other  spread   dist",
        "early  0-1         4         2      2    0.05    0.5",
        "middle 2           2         1      1    0.20    2.0",
        "deep   3           2         1      1    0.30    3.0",
    ]


def test_the_command_shows_how_far_vectors_move_without_a_head_of_each_group() -> None:
    moved = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.5], [0.0, 3.0]], np.float32)
    importance = Importance(moved, moved, np.zeros((2, 4), np.float32), REF)
    analysis = Analysis(tuple(heads(4, "previous", "other")), (9, 9), REF, importance)
    title, *rows = layers_text(analysis).splitlines()[1:]
    assert title.endswith("   dist  moved")
    assert [row.split()[-1] for row in rows] == ["0.250", "0.500", "1.500"]
