"""Head analysis of the trained model.

The client finds the heads that its evaluation names (bench/results/evaluation.md).
"""

from __future__ import annotations

import numpy as np
import pytest

from headlight import Client
from headlight.analysis import Analysis, analyse
from tests.shipped import HEADS, LAYERS
from tests.system.processes import Service

# Supervised in training (docs/model-card.md).
PREVIOUS, NEXT = (0, 0), (0, 1)
SAME, BRACKET = (1, 0), (2, 0)
TEXTS = [
    "def count(path):\n    total = 0\n    for line in open(path):\n"
    "        total += int(line.split()[0])\n    return total\n",
    "class Stack:\n    def __init__(self, items):\n        self.items = list(items)\n\n"
    "    def push(self, item):\n        self.items.append(item)\n        return len(self.items)\n",
    "def merge(first, second):\n    result = dict(first)\n"
    "    for key, value in second.items():\n        result[key] = value\n    return result\n",
    "names = [each.name for each in users]\nif names:\n    print(names[0], len(names))\n",
]


@pytest.fixture(scope="module")
def analysis(rope: Service) -> Analysis:
    with Client(rope.target) as client:
        return analyse(client, TEXTS, ablate=True, patterns=True)


def test_the_client_finds_the_heads_named_in_the_evaluation(analysis: Analysis) -> None:
    named = {(head.layer, head.head): head.kind for head in analysis.heads}
    assert named[PREVIOUS] == "previous"
    assert named[NEXT] == "next"
    assert named[SAME] == "same"
    assert named[BRACKET] == "bracket"


def test_patterns_rename_no_head_that_has_a_position(analysis: Analysis, rope: Service) -> None:
    with Client(rope.target) as client:
        plain = analyse(client, TEXTS)
    changed = {
        (head.layer, head.head): (before.kind, head.kind)
        for head, before in zip(analysis.heads, plain.heads, strict=True)
        if head.kind != before.kind
    }
    assert changed == {SAME: ("other", "same"), BRACKET: ("other", "bracket")}


def test_links_of_a_positional_head_are_neighbours(analysis: Analysis) -> None:
    for (layer, number), step in {PREVIOUS: -1, NEXT: 1}.items():
        [head] = [head for head in analysis.heads if (head.layer, head.head) == (layer, number)]
        assert head.link is not None
        assert head.link.key - head.link.query == step
        assert head.link.weight > 0.9


def test_removing_any_head_changes_vectors(analysis: Analysis, rope: Service) -> None:
    moved = analysis.importance
    assert moved is not None
    assert moved.distance.shape == moved.cosine.shape == (LAYERS, HEADS)
    assert (moved.distance > 1e-4).all()
    mask = np.ones((LAYERS, HEADS), np.float32)
    mask[PREVIOUS] = 0
    with Client(rope.target) as client:
        changed = client.encode(TEXTS, head_mask=mask)
    expected = np.linalg.norm(changed - moved.baseline, axis=1).mean()
    assert moved.distance[PREVIOUS] == pytest.approx(expected, abs=1e-5)
    # Vectors of length 1: the cosine follows from the distance of each.
    assert (moved.cosine >= moved.distance.astype(np.float64) ** 2 / 2 - 1e-5).all()
