from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headlight_model.config import EncoderConfig
from headlight_model.layers.attention import MultiHeadAttention, attend
from headlight_model.masking import MASKED_SCORE
from headlight_model.positions.position_schemes import Positions

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 7, 4


def random_qkv(sharpness: float = 3.0) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = torch.randn(3, BATCH, HEADS, LENGTH, WIDTH).unbind(0)
    return query * sharpness, key, value


def padding() -> Tensor:
    keep = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    keep[1, 4:] = False
    return keep[:, None, None, :]


def one_text_all_padding() -> Tensor:
    keep = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    keep[1] = False
    return keep[:, None, None, :]


def triangular_without_self() -> Tensor:
    """Return a mask in which the first query sees nothing, the others all tokens before them."""
    return torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(-1)[None, None]


MASKS: dict[str, Callable[[], Tensor | None]] = {
    "none": lambda: None,
    "padding": padding,
    "one_text_all_padding": one_text_all_padding,
    "triangular_without_self": triangular_without_self,
}


@pytest.fixture(params=MASKS.values(), ids=list(MASKS))
def visible(request: pytest.FixtureRequest) -> Tensor | None:
    mask: Tensor | None = request.param()
    return mask


@pytest.mark.parametrize("fused", [True, False])
def test_attention_matches_an_example_worked_by_hand(fused: bool) -> None:
    """Width 4, so scores are halved. First query: scores ln 3 and 0, weights 3/4 and 1/4.

    Second: equal scores.
    """
    query = torch.tensor([[[[2.0, 0, 0, 0], [0, 0, 0, 0]]]])
    key = torch.tensor([[[[math.log(3), 0, 0, 0], [0, 5.0, 0, 0]]]])
    value = torch.tensor([[[[4.0, 0, 0, 0], [0, 8.0, 0, 0]]]])
    context, maps = attend(query, key, value, None, fused=fused)
    torch.testing.assert_close(context, torch.tensor([[[[3.0, 2, 0, 0], [2, 4, 0, 0]]]]))
    if fused:
        assert maps is None
    else:
        assert maps is not None
        torch.testing.assert_close(maps.weights, torch.tensor([[[[0.75, 0.25], [0.5, 0.5]]]]))
        torch.testing.assert_close(maps.scores, torch.tensor([[[[math.log(3), 0], [0, 0]]]]))


def test_plain_and_fused_forms_agree(visible: Tensor | None) -> None:
    query, key, value = random_qkv()
    plain, _ = attend(query, key, value, visible, fused=False)
    fused, _ = attend(query, key, value, visible, fused=True)
    torch.testing.assert_close(plain, fused, atol=2e-6, rtol=0)


def test_rows_sum_to_one_or_are_zero(visible: Tensor | None) -> None:
    query, key, value = random_qkv()
    _, maps = attend(query, key, value, visible, fused=False)
    assert maps is not None
    weights = maps.weights
    everywhere = torch.ones(BATCH, HEADS, LENGTH, LENGTH, dtype=torch.bool)
    seen = everywhere if visible is None else visible.expand(everywhere.shape)
    torch.testing.assert_close(weights.sum(-1), seen.any(-1).float())
    assert (weights[~seen] == 0).all()
    assert (weights >= 0).all()
    assert (maps.scores[~seen] == MASKED_SCORE).all()
    assert (maps.scores[seen].abs() < 100).all()


@pytest.mark.parametrize("fused", [True, False])
def test_a_query_that_sees_nothing_gets_zeros_and_finite_gradients(fused: bool) -> None:
    tensors = query, key, value = random_qkv()
    for tensor in tensors:
        tensor.requires_grad_()
    context, maps = attend(query, key, value, one_text_all_padding(), fused=fused)
    assert (context[1] == 0).all()
    assert (context[0] != 0).any()
    if maps is not None:
        assert (maps.weights[1] == 0).all()
    context.square().sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    for tensor in tensors:
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


@pytest.mark.parametrize("fused", [True, False])
def test_huge_scores_stay_finite(fused: bool) -> None:
    query, key, value = random_qkv(sharpness=1e5)
    context, _ = attend(query, key, value, padding(), fused=fused)
    assert context.isfinite().all()


@pytest.mark.parametrize("fused", [True, False])
def test_multi_head_attention_equals_the_one_in_torch(
    fused: bool, config: Callable[..., EncoderConfig]
) -> None:
    ours = MultiHeadAttention(config(dim=12, heads=3), 0)
    theirs = nn.MultiheadAttention(12, 3, batch_first=True)
    theirs.load_state_dict(
        {
            "in_proj_weight": ours.project_in.weight,
            "in_proj_bias": ours.project_in.bias,
            "out_proj.weight": ours.project_out.weight,
            "out_proj.bias": ours.project_out.bias,
        }
    )
    x = 3 * torch.randn(BATCH, LENGTH, 12)
    visible = padding()
    context, maps = ours(x, visible, Positions(), (), fused=fused)
    expected, expected_weights = theirs(
        x, x, x, key_padding_mask=~visible[:, 0, 0], need_weights=True, average_attn_weights=False
    )
    torch.testing.assert_close(context, expected, atol=2e-6, rtol=0)
    assert (maps is None) is fused
    if maps is not None:
        torch.testing.assert_close(maps.weights, expected_weights, atol=2e-6, rtol=0)
