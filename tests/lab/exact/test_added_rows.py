"""Properties of the rows that a scheme adds."""

from __future__ import annotations

import pytest
import torch

from lab.exact.added_rows import AT_ONCE, beyond_one, closest


@pytest.mark.parametrize("places", [(0, 1), (3, AT_ONCE + 7), (AT_ONCE + 1, AT_ONCE + 2)])
def test_equal_rows_are_found_wherever_they_stand(places: tuple[int, int]) -> None:
    table = torch.randn(AT_ONCE + 9, 8, dtype=torch.float64)
    assert float(closest(table)) > 0.01
    table[places[1]] = table[places[0]]
    assert float(closest(table)) == 0


def test_the_excess_over_one_is_that_of_the_greatest_value_of_either_sign() -> None:
    assert float(beyond_one(torch.tensor([[0.5, -1.0]]))) == 0
    assert float(beyond_one(torch.tensor([[0.5, -1.75]]))) == 0.75
