from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.masking import MASKED_SCORE
from headlight_model.positions.position_schemes import Alibi, alibi_slopes
from tests.model.positions.biases import bias_at

Build = Callable[..., Encoder]


def test_slopes_of_a_power_of_two_are_the_geometric_series_of_the_paper() -> None:
    assert alibi_slopes(8).tolist() == [2.0**-h for h in range(1, 9)]
    assert alibi_slopes(1).tolist() == [2.0**-8]


def test_slopes_of_twelve_heads_are_those_of_eight_and_every_other_of_sixteen() -> None:
    assert alibi_slopes(12).tolist() == [
        *(2.0**-h for h in range(1, 9)),
        2**-0.5,
        2**-1.5,
        2**-2.5,
        2**-3.5,
    ]


@given(st.integers(1, 200))
def test_any_number_of_heads_has_as_many_different_slopes_between_0_and_1(heads: int) -> None:
    slopes = alibi_slopes(heads).tolist()
    assert len(set(slopes)) == heads
    assert all(0 < slope < 1 for slope in slopes)


@pytest.mark.parametrize("heads", [1, 3, 4])
def test_the_symmetric_bias_is_minus_slope_times_distance(
    heads: int, config: Callable[..., EncoderConfig]
) -> None:
    at = np.array([0, 1, 5, 2000])
    scheme = Alibi(config(positions="alibi", dim=12, heads=heads))
    bias = bias_at(scheme, torch.from_numpy(at))[0].numpy()
    expected = -alibi_slopes(heads).numpy()[:, None, None] * np.abs(at[:, None] - at)
    np.testing.assert_allclose(bias, expected, rtol=1e-6)


def test_each_signed_head_attends_one_way_and_a_pair_shares_a_slope(
    config: Callable[..., EncoderConfig],
) -> None:
    scheme = Alibi(config(positions="alibi", alibi="signed", dim=15, heads=5))
    bias = bias_at(scheme, torch.arange(6))[0].numpy()
    distance = np.arange(6) - np.arange(6)[:, None]  # j - i
    for head, slope in enumerate(alibi_slopes(3).repeat_interleave(2)[:5].tolist()):
        seen = distance <= 0 if head % 2 == 0 else distance >= 0
        np.testing.assert_allclose(bias[head][seen], -slope * np.abs(distance[seen]), rtol=1e-6)
        assert (bias[head][~seen] == np.float32(MASKED_SCORE)).all()


def test_signed_distinguishes_left_from_right_and_symmetric_does_not(encoder: Build) -> None:
    ids = torch.randint(0, 50, (1, 9))
    for form, told in (("signed", True), ("symmetric", False)):
        model = encoder(positions="alibi", alibi=form)
        with torch.no_grad():
            moved = (model(ids).pooled - model(ids.flip(1)).pooled).abs().max()
        assert (float(moved) > 1e-4) is told


def test_a_causal_mask_makes_distance_distinguish_left_from_right(encoder: Build) -> None:
    model, ids = encoder(positions="alibi", causal=True), torch.randint(0, 50, (1, 9))
    with torch.no_grad():
        assert float((model(ids).pooled - model(ids.flip(1)).pooled).abs().max()) > 1e-4


def test_alibi_has_no_table_and_no_parameters(encoder: Build) -> None:
    model = encoder(positions="alibi")
    assert list(model.positions.parameters()) == []
    with torch.no_grad():
        far = model(torch.arange(8)[None], positions=torch.arange(8)[None] + 10**6).pooled
        near = model(torch.arange(8)[None]).pooled
    torch.testing.assert_close(far, near, atol=1e-6, rtol=0)
