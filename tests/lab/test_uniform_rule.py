from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lab.exact.claims import CALLED_UNIFORM, greatest_deviation
from lab.uniform_rule import LENGTHS, called_uniform
from tests.test_docs import ROOT

RESULTS = ROOT / "docs/positions/uniform-rule.md"
ROW = re.compile(r"^\| (\d+) \| (\d+) ?% \| (\d+) ?% \|", re.MULTILINE)


@given(
    st.integers(2, 12).flatmap(
        lambda n: arrays.arrays(np.float64, (n, n), elements=st.floats(0, 1))
    )
)
def test_no_attention_has_a_larger_standard_deviation_than_the_bound(
    raw: np.ndarray[tuple[int, int], np.dtype[np.float64]],
) -> None:
    count = len(raw)
    rows = (raw + 1e-9) / (raw + 1e-9).sum(axis=1, keepdims=True)
    assert rows.std() <= greatest_deviation(count) + 1e-9
    assert rows.std(axis=1).max() <= greatest_deviation(count) + 1e-9
    assert np.eye(count)[::-1].std() == pytest.approx(greatest_deviation(count))


def test_from_44_tokens_on_the_rule_calls_every_head_uniform() -> None:
    """Even a head that attends to the previous token alone."""
    assert greatest_deviation(43) > CALLED_UNIFORM > greatest_deviation(44)
    for count, expected in ((43, False), (44, True), (512, True)):
        previous = np.eye(count, k=-1, dtype=np.float32)
        previous[0, 0] = 1
        assert called_uniform(previous) == expected


def test_heads_of_several_layers_are_judged_one_by_one() -> None:
    one_hot, even = np.eye(8, dtype=np.float32), np.full((8, 8), 1 / 8, np.float32)
    found = called_uniform(np.stack([[one_hot, even], [even, one_hot]]))
    assert found.tolist() == [[False, True], [True, False]]


def test_the_page_quotes_the_measured_figures() -> None:
    measured = ROW.findall(RESULTS.read_text(encoding="utf-8"))
    assert [int(row[0]) for row in measured] == [*LENGTHS]
    assert ROW.findall((ROOT / "docs/heads.md").read_text(encoding="utf-8")) == measured
    for length, tutorial, _ in measured:
        assert int(length) < 44 or int(tutorial) == 100
