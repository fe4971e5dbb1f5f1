from __future__ import annotations

import numpy as np
import pytest

from lab import real_heads
from tests.test_docs import ROOT

RESULTS = ROOT / "docs/positions/real-heads.md"
MODEL = "minilm"


def test_nearest_texts_are_kept_by_equal_vectors_and_lost_by_others() -> None:
    random = np.random.default_rng(0)
    vectors = random.normal(size=(60, 8)).astype(np.float32)
    assert real_heads.kept(vectors, 3 * vectors) == 1
    turned = vectors.copy()
    turned[:, 0] += 1
    assert 0.3 < real_heads.kept(vectors, turned) < 1
    other = random.normal(size=(60, 8)).astype(np.float32)
    assert real_heads.kept(vectors, other) == pytest.approx(10 / 59, abs=0.06)


def test_heads_can_go_until_the_first_loss() -> None:
    assert real_heads.removable([1.0, 0.95, 0.5, 0.99]) == real_heads.STEP
    assert real_heads.removable([1.0, 0.95]) == real_heads.STEP


def test_the_least_important_heads_go_first() -> None:
    orders = real_heads.orders(np.array([[0.3, 0.1], [0.2, 0.9]], np.float32))
    assert orders["least important first"] == [[1, 2, 0, 3]]
    assert orders["most important first"] == [[3, 0, 2, 1]]
    assert all(sorted(each) == [0, 1, 2, 3] for each in orders["random order"])


def test_the_page_quotes_the_measured_kinds() -> None:
    measured = [
        line
        for line in RESULTS.read_text(encoding="utf-8").splitlines()
        if line.startswith(f"| {MODEL} |")
    ]
    assert len(measured) == 3
    page = (ROOT / "docs/heads.md").read_text(encoding="utf-8")
    assert all(line in page for line in measured)
