"""Rotary positions for longer texts: each scaling against its paper, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headlight_model.config import EncoderConfig
from headlight_model.positions.angles import inverse_wavelengths
from headlight_model.positions.position_schemes import Rope
from headlight_model.positions.rope import KINDS, RopeScaling, rope_frequencies

WIDTH, THETA = 16, 10000.0
PLAIN = inverse_wavelengths(WIDTH, THETA)
YARN = RopeScaling(kind="yarn", factor=4.0, trained_length=512)
LLAMA3 = RopeScaling(kind="llama3", factor=8.0, trained_length=512)
Config = Callable[..., EncoderConfig]


def test_linear_divides_every_frequency() -> None:
    scaled = rope_frequencies(WIDTH, THETA, RopeScaling(kind="linear", factor=4.0))
    torch.testing.assert_close(scaled, PLAIN / 4)


def test_ntk_keeps_the_fastest_pair_and_slows_the_slowest_by_the_factor() -> None:
    scaled = rope_frequencies(WIDTH, THETA, RopeScaling(kind="ntk", factor=4.0))
    assert scaled[0] == PLAIN[0] == 1
    assert float(PLAIN[-1] / scaled[-1]) == pytest.approx(4.0)


def test_fixed_ntk_has_the_numbers_of_its_formula() -> None:
    """theta^(-2i/d) f^(-2(i+1)/d), which is theta times f, divided by f^(2/d)."""
    scaled = rope_frequencies(4, THETA, RopeScaling(kind="fixed_ntk", factor=2.0))
    assert scaled.tolist() == pytest.approx([2**-0.5, 0.01 / 2])
    scaled = rope_frequencies(WIDTH, THETA, RopeScaling(kind="fixed_ntk", factor=8.0))
    torch.testing.assert_close(scaled, inverse_wavelengths(WIDTH, THETA * 8) / 8 ** (2 / WIDTH))


@pytest.mark.parametrize("scaling", [YARN, LLAMA3])
def test_yarn_keeps_fast_pairs_and_divides_slow_ones(
    scaling: RopeScaling,
) -> None:
    scaled = rope_frequencies(WIDTH, THETA, scaling)
    turns = scaling.trained_length * PLAIN / (2 * math.pi)
    often, seldom = (32, 1) if scaling.kind == "yarn" else (4, 1)
    assert torch.equal(scaled[turns > often], PLAIN[turns > often])
    assert (turns > often).any()
    slow = scaled[turns < seldom] / PLAIN[turns < seldom] * scaling.factor
    assert len(slow) > 1
    # yarn's ramp ends at a whole pair.
    torch.testing.assert_close(slow[1:], torch.ones_like(slow[1:]))


def test_llama3_interpolates_by_the_number_of_turns() -> None:
    # trained_length / wavelength = 2.5 is halfway from 1 to 4: half of each.
    theta = (512 / (2 * math.pi * 2.5)) ** (WIDTH / 2)  # of pair 1
    scaled = rope_frequencies(WIDTH, theta, LLAMA3)
    own = inverse_wavelengths(WIDTH, theta)[1]
    assert float(scaled[1]) == pytest.approx(float(own) * (0.5 + 0.5 / 8))


@given(factor=st.floats(1, 64), kind=st.sampled_from(KINDS))
def test_every_scaling_slows_pairs_by_at_most_the_factor(factor: float, kind: str) -> None:
    scaled = rope_frequencies(
        WIDTH, THETA, RopeScaling(kind=kind, factor=factor, trained_length=512)
    )
    assert bool((scaled <= PLAIN * (1 + 1e-12)).all())
    assert bool((scaled >= PLAIN / factor * (1 - 1e-12)).all())


def test_yarn_makes_vectors_longer_by_its_temperature(config: Config) -> None:
    scheme = Rope(config(rope_scaling=YARN))
    heads = torch.randn(1, 2, 3, 8)
    turned = scheme.rotate(heads, scheme.prepare(torch.tensor([[0, 7, 60]])))
    grown = torch.linalg.vector_norm(turned, dim=-1) / torch.linalg.vector_norm(heads, dim=-1)
    torch.testing.assert_close(grown, torch.full_like(grown, 0.1 * math.log(4) + 1))
    assert (
        RopeScaling(kind="yarn", factor=4.0, trained_length=9, attention_factor=1.5).amplitude
        == 1.5
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "longrope"}, "kind is 'longrope'; choose one of"),
        ({"factor": 0.5}, "factor is 0.5; it must be at least 1"),
        ({"factor": math.nan}, "factor is nan"),
        ({"kind": "yarn", "trained_length": 0}, "trained_length is 0; yarn needs at least 1"),
        ({"low": 4.0}, "low < high must hold"),
        ({"attention_factor": -1.0}, "attention_factor is -1.0"),
    ],
)
def test_an_invalid_scaling_is_refused_by_name(values: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RopeScaling(**{"kind": "linear", "factor": 2.0} | values)  # type: ignore[arg-type]
