"""Cost of several heads, and of reading at once."""

from __future__ import annotations

import torch

from lab.building import build
from lab.experiments import head_cost, reading_cost
from lab.experiments.variants import RECALL


def test_every_number_of_heads_has_the_parameters_of_the_trained_models_and_a_time() -> None:
    threads = torch.get_num_threads()
    rows = head_cost.measure(quick=True)
    assert torch.get_num_threads() == threads
    assert [row["heads"] for row in rows] == [1, 2, 4, 8, 16]
    trained = sum(each.numel() for each in build(RECALL).parameters())
    assert {row["parameters"] for row in rows} == {trained}
    assert all(row["ms"] > 0 for row in rows)


def test_reading_costs_time_token_by_token_and_at_once() -> None:
    threads = torch.get_num_threads()
    cost = reading_cost.measure(quick=True)
    assert torch.get_num_threads() == threads
    assert cost["tokens"] == 500
    assert min(cost["recurrent"], cost["attention"]) > 0
