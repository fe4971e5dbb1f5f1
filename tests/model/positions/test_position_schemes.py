from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.positions.position_schemes import Positions, build_positions
from tests.model.positions.biases import bias_at

FAR = 100_001  # positions: 0 to 100,000
SAMPLE = np.unique(
    np.concatenate([np.arange(600), np.arange(FAR - 600, FAR), np.arange(0, FAR, 997)])
)


def scheme(positions: str, width: int, **changes: float) -> Positions:
    """Return a position scheme for one head of `width`, up to position FAR."""
    config = EncoderConfig(
        vocab_size=2,
        dim=width,
        heads=1,
        layers=1,
        ffn_dim=1,
        positions=positions,
        max_length=FAR,
        **changes,  # type: ignore[arg-type]  # values of one field
    )
    return build_positions(config)


def encoding(width: int, positions: Tensor) -> Tensor:
    """Return PE of the positions [P] -> [P, width]."""
    sinusoidal = scheme("sinusoidal", width)
    return sinusoidal.embed(
        torch.zeros(1, len(positions), width), sinusoidal.prepare(positions[None])
    )[0]


def rotated(rope: Positions, vector: Tensor, position: int) -> Tensor:
    """Return a vector [d], rotated as a query or key at `position` -> [d]."""
    return rope.rotate(vector[None, None, None], rope.prepare(torch.tensor([[position]])))[0, 0, 0]


@pytest.mark.parametrize("theta", [500.0, 10000.0])
def test_rope_rotates_each_pair_by_its_angle(theta: float) -> None:
    width = 64
    half = width // 2
    rope = scheme("rope", width, rope_theta=theta)
    state = rope.prepare(torch.from_numpy(SAMPLE)[None])
    # Every pair is (1, 0) and is rotated to (cos, sin).
    unit = torch.cat([torch.ones(half), torch.zeros(half)])
    turned = rope.rotate(unit.expand(1, 1, len(SAMPLE), width), state)[0, 0].numpy()
    angles = SAMPLE[:, None] * theta ** (-2 * np.arange(half) / width)
    assert np.abs(turned[:, :half] - np.cos(angles)).max() < 1e-6
    assert np.abs(turned[:, half:] - np.sin(angles)).max() < 1e-6


@given(position=st.integers(0, 50_000), shift=st.integers(0, 49_999))
def test_sinusoidal_shift_is_a_rotation_that_depends_on_the_shift_only(
    position: int, shift: int
) -> None:
    width = 8
    angles = shift * 10000.0 ** (-np.arange(0, width, 2) / width)
    rotation = np.zeros((width, width))
    for pair, angle in enumerate(angles):
        block = slice(2 * pair, 2 * pair + 2)
        rotation[block, block] = [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
    here, there = encoding(width, torch.tensor([position, position + shift])).double().numpy()
    assert np.abs(rotation @ here - there).max() < 2e-6


@given(
    distance=st.integers(0, 1000),
    query_at=st.integers(1000, 90_000),
    other_at=st.integers(1000, 90_000),
)
def test_rope_score_depends_on_the_distance_only(
    distance: int, query_at: int, other_at: int
) -> None:
    rope = scheme("rope", 8)
    query, key = torch.randn(2, 8, generator=torch.Generator().manual_seed(3)).unbind(0)
    here = rotated(rope, query, query_at) @ rotated(rope, key, query_at - distance)
    there = rotated(rope, query, other_at) @ rotated(rope, key, other_at - distance)
    torch.testing.assert_close(here, there, atol=1e-5, rtol=0)


def test_rope_score_changes_with_the_distance_and_its_sign() -> None:
    rope = scheme("rope", 8)
    query, key = torch.randn(2, 8, generator=torch.Generator().manual_seed(3)).unbind(0)
    scores = [float(rotated(rope, query, 10) @ rotated(rope, key, at)) for at in (7, 10, 13)]
    assert (
        min(
            abs(a - b)
            for a, b in ((scores[0], scores[1]), (scores[1], scores[2]), (scores[0], scores[2]))
        )
        > 0.05
    )


@pytest.mark.parametrize("positions", ["rope", "sinusoidal", "learned"])
def test_order_matters_and_default_positions_count_from_zero(
    positions: str, encoder: Callable[..., Encoder]
) -> None:
    model = encoder(positions=positions)
    ids = torch.arange(10)[None]
    with torch.no_grad():
        plain, reversed_ = model(ids), model(ids.flip(1))
        counted = model(ids, positions=torch.arange(10)[None])
    torch.testing.assert_close(plain.pooled, counted.pooled, atol=0, rtol=0)
    assert float((plain.pooled - reversed_.pooled).abs().max()) > 1e-3


def test_a_position_beyond_the_tables_is_an_error() -> None:
    with pytest.raises(IndexError):
        scheme("rope", 8).prepare(torch.tensor([[2 * FAR]]))


@pytest.mark.parametrize("positions", ["spiral", "rope+spiral", "rope+rope", ""])
def test_an_unknown_or_repeated_scheme_is_refused_with_the_known_ones(
    positions: str, config: Callable[..., EncoderConfig]
) -> None:
    with pytest.raises(
        ValueError,
        match=rf"positions is '{re.escape(positions)}'; choose one of \['alibi', .*'none', "
        r"'relative', .*, or different ones joined by \+",
    ):
        build_positions(config(positions=positions))


def test_composed_schemes_act_as_each_alone(config: Callable[..., EncoderConfig]) -> None:
    composed = build_positions(config(positions="learned+rope+alibi+relative"))
    x, heads, at = torch.randn(1, 9, 16), torch.randn(1, 2, 9, 8), torch.arange(9)
    learned, rope, alibi, relative = [
        scheme
        for scheme in composed.get_submodule("schemes").children()
        if isinstance(scheme, Positions)
    ]
    state = composed.prepare(at[None])
    assert torch.equal(composed.embed(x, state), learned.embed(x, learned.prepare(at[None])))
    assert torch.equal(composed.rotate(heads, state), rope.rotate(heads, rope.prepare(at[None])))
    summed = bias_at(alibi, at) + bias_at(relative, at)
    assert torch.equal(bias_at(composed, at), summed)
    assert (composed.adds, composed.needs_training) == (True, True)
    turning = build_positions(config(positions="rope+alibi"))
    assert (turning.adds, turning.needs_training) == (False, False)
