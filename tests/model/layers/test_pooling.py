from __future__ import annotations

import pytest
import torch

from headlight.spec import POOLING_MODES
from headlight_model.layers.pooling import (
    POOLING,
    cls_pool,
    last_pool,
    max_pool,
    mean_pool,
    mean_sqrt_len_pool,
    unit_length,
    weighted_mean_pool,
)

TOKENS = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [100.0, 100.0]]])


def test_mean_excludes_padding() -> None:
    mask = torch.tensor([[True, True, False]])
    torch.testing.assert_close(mean_pool(TOKENS, mask), torch.tensor([[2.0, 4.0]]))


def test_cls_is_the_first_token() -> None:
    mask = torch.tensor([[True, True, False]])
    torch.testing.assert_close(cls_pool(TOKENS, mask), torch.tensor([[1.0, 2.0]]))


@pytest.mark.parametrize(
    ("kept", "place"), [((1, 1, 0), 1), ((1, 1, 1), 2), ((0, 1, 1), 2), ((1, 0, 0), 0)]
)
def test_last_is_the_last_token_that_is_not_padding(kept: tuple[int, ...], place: int) -> None:
    assert torch.equal(last_pool(TOKENS, torch.tensor([kept], dtype=torch.bool)), TOKENS[:, place])


@pytest.mark.parametrize("mode", sorted(POOLING))
def test_padding_alone_gives_zeros(mode: str) -> None:
    pooled = POOLING[mode](TOKENS, torch.zeros(1, 3, dtype=torch.bool))
    assert unit_length(pooled).tolist() == [[0.0, 0.0]]


def test_unit_length_keeps_the_direction_of_tiny_and_of_large_vectors() -> None:
    vectors = torch.tensor([[3.0, 4.0], [3e-6, 4e-6], [3e15, 4e15]])
    torch.testing.assert_close(unit_length(vectors), torch.tensor([[0.6, 0.8]]).expand(3, 2))


def test_max_is_per_dimension_and_excludes_padding() -> None:
    tokens = torch.tensor([[[-1.0, 2.0], [-3.0, 6.0], [100.0, 100.0]]])
    assert max_pool(tokens, torch.tensor([[True, True, False]])).tolist() == [[-1.0, 6.0]]


def test_the_weighted_mean_weights_later_tokens_more() -> None:
    mask = torch.tensor([[True, True, False]])
    torch.testing.assert_close(
        weighted_mean_pool(TOKENS, mask), torch.tensor([[(1 + 2 * 3) / 3, (2 + 2 * 6) / 3]])
    )


def test_sqrt_pooling_divides_the_sum_by_the_root_of_the_length() -> None:
    mask = torch.tensor([[True, True, False]])
    torch.testing.assert_close(
        mean_sqrt_len_pool(TOKENS, mask), torch.tensor([[4.0, 8.0]]) / 2**0.5
    )


def test_the_runtime_knows_the_modes_of_the_model() -> None:
    assert set(POOLING_MODES) == set(POOLING)
