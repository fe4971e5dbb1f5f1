from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from headlight_model.positions.position_schemes import Alibi, Learned, Rope
from lab import schemes
from lab.exact.properties import PROPERTIES, TOLERANCE, Row, measure

CLEAR = 1e-3  # violations are larger than rounding could explain


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return measure()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_expected_properties_hold_and_others_are_clearly_violated(seed: int) -> None:
    for row in measure(seed):
        assert math.isfinite(row.delta)
        assert row.holds is row.expected, row
        assert row.holds is (row.delta < TOLERANCE), row
        assert row.holds or row.delta > CLEAR, row


def test_every_property_is_tested_with_every_applicable_scheme(
    rows: list[Row],
) -> None:
    tried = Counter((row.property, row.scheme) for row in rows)
    of_tables = ("linear shift", "bounded", "repeated")
    adding = {(name, scheme) for name in of_tables for scheme in ("sinusoidal", "learned")}
    others = {
        (name, scheme) for name in PROPERTIES if name not in of_tables for scheme in schemes.FIELDS
    }
    assert tried == Counter(adding | others)


def test_the_properties_of_schemes_are_those_of_the_papers(rows: list[Row]) -> None:
    held = {
        name: {row.scheme for row in rows if row.property == name and row.holds}
        for name in PROPERTIES
    }
    assert held == {
        "permutation": {"none"},
        "reversal": {"none", "alibi"},
        "shift": {"none", "rope", "alibi", "alibi signed"},
        "swap, pooled": {"none"},
        "swap, other tokens": {"none"},
        "linear shift": {"sinusoidal"},
        "bounded": {"sinusoidal"},
        "repeated": set(),
    }


def test_a_seed_gives_the_same_rows_and_keeps_the_torch_state(rows: list[Row]) -> None:
    before = torch.random.get_rng_state()
    assert measure() == rows
    assert torch.equal(torch.random.get_rng_state(), before)
    assert [row.delta for row in measure(1)] != [row.delta for row in rows]


def test_rows_survive_json(rows: list[Row]) -> None:
    kept = json.loads(json.dumps([dataclasses.asdict(row) for row in rows]))
    assert [Row(**values) for values in kept] == rows


def surprises() -> set[tuple[str, str]]:
    return {(row.property, row.scheme) for row in measure() if row.holds is not row.expected}


def test_a_scheme_without_effect_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rope, "rotate", lambda self, heads, state: heads)
    assert surprises() == {
        (name, "rope") for name in ("permutation", "reversal", "swap, pooled", "swap, other tokens")
    }


def test_a_wrapping_position_table_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Learned.prepare
    monkeypatch.setattr(Learned, "prepare", lambda self, positions: prepare(self, positions % 100))
    # All shifts by a multiple of a hundred then have no effect.
    assert surprises() == {(name, "learned") for name in ("shift", "linear shift", "repeated")}


def test_a_bias_that_distinguishes_left_from_right_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def one_sided(self: Alibi, state: tuple[Tensor, ...], *_: object) -> Tensor:
        return state[0].tril() if not self.signed else state[0]

    monkeypatch.setattr(Alibi, "bias", one_sided)
    assert surprises() == {("reversal", "alibi")}
