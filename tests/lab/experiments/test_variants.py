"""Comparisons of one change each, and pruning."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch

from lab.building import build, encoder_config
from lab.experiments import variants
from lab.experiments.heads import ORDERS, lost_without, pruned, without_in_turn
from lab.plans import Training
from lab.runner import EXPERIMENTS, all_jobs, comparisons
from lab.training import accuracy, held_out

PLANS = variants.trainings(range(1))


def ignore() -> None:
    """Progress callback that does nothing."""


@pytest.mark.parametrize("comparison", ["concat", "scale", "base", "heads", "depth", "varied"])
def test_a_comparison_has_trainings_of_equal_steps_and_seeds(comparison: str) -> None:
    compared = [plan for plan in PLANS if comparison in plan.comparisons]
    assert len(compared) >= 2
    assert len({(plan.steps, plan.batch, plan.rate, plan.lengths) for plan in compared}) == 1
    assert len({plan.name for plan in compared}) == len(compared)


def test_every_training_can_be_chosen_by_the_name_of_a_comparison() -> None:
    jobs = all_jobs(list(EXPERIMENTS), range(1), quick=False)
    assert all(training.comparisons for _, training in jobs)
    assert set(comparisons()) >= {"copy", "reverse", "recall", "scaling", "causal", "depth"}


def test_heads_are_compared_at_equal_parameters() -> None:
    compared = [plan for plan in PLANS if "heads" in plan.comparisons]
    assert {encoder_config(plan).heads for plan in compared} == {1, 4, 8}
    assert len({sum(each.numel() for each in build(plan).parameters()) for plan in compared}) == 1


def test_a_run_reports_every_length_and_the_refusal_of_a_longer_text(tmp_path: Path) -> None:
    [plan] = [each for each in PLANS if (each.scheme, each.variant) == ("learned", "varied")]
    short = dataclasses.replace(plan, steps=2, batch=4, tested=64)
    found = variants.run(short, tmp_path, ignore, again=False)["accuracy"]
    assert isinstance(found, dict)
    assert list(found) == ["8", "12", "16", "20"]
    assert "max_length 16" in found.pop("20")
    assert all(0 <= each["reverse"] <= 1 for each in found.values())


SHORT = Training(
    task="reverse", scheme="learned", seed=3, steps=1, lengths=(8, 8), batch=4, tested=256
)


def test_heads_are_removed_one_after_the_other() -> None:
    encoder = build(SHORT).eval()
    examples = held_out(SHORT, 8)
    found = without_in_turn(encoder, examples, "reverse", torch.tensor([7, 0, 1, 2, 3, 4, 5, 6]))
    first = torch.ones(1, 2, 4)
    assert found[0] == accuracy(encoder, examples)["reverse"]
    first[0, 1, 3] = 0
    assert found[1] == accuracy(encoder, examples, head_mask=first)["reverse"]
    assert found[8] == accuracy(encoder, examples, head_mask=torch.zeros(1, 2, 4))["reverse"]
    assert len(found) == 9


def test_all_orders_begin_with_all_heads_and_end_without_any() -> None:
    encoder = build(SHORT).eval()
    lost = lost_without(encoder, held_out(SHORT, 8), "reverse")
    found = pruned(encoder, SHORT, 8, lost)
    assert [len(orders) for orders in found.values()] == [1, 1, ORDERS]
    every = list(itertools.chain.from_iterable(found.values()))
    assert len({order[0] for order in every}) == len({order[-1] for order in every}) == 1
