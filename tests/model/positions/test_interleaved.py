from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headlight_model.config import EncoderConfig
from headlight_model.positions.interleaved import to_half_split
from headlight_model.positions.position_schemes import Rope

HEADS, WIDTH, LENGTH = 3, 8, 7


def interleaved(heads: Tensor, rotated: int) -> Tensor:
    """RoFormer's rotation, written out.

    The pairs (2i, 2i+1) of [H, S, d] turn by p * 10000^(-2i/r).
    """
    out = heads.clone()
    for pair in range(rotated // 2):
        angle = torch.arange(heads.shape[1]) * 10000.0 ** (-2 * pair / rotated)
        even, odd = heads[..., 2 * pair], heads[..., 2 * pair + 1]
        out[..., 2 * pair] = even * angle.cos() - odd * angle.sin()
        out[..., 2 * pair + 1] = odd * angle.cos() + even * angle.sin()
    return out


def project(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Project [S, D] -> [H, S, d]."""
    return torch.nn.functional.linear(x, weight, bias).view(LENGTH, HEADS, WIDTH).transpose(0, 1)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_permuted_weights_give_the_scores_of_the_interleaved_model(
    fraction: float, config: Callable[..., EncoderConfig]
) -> None:
    dim, rotated = HEADS * WIDTH, int(WIDTH * fraction)
    x = torch.randn(LENGTH, dim)
    w_q, b_q, w_k, b_k = (
        torch.randn(dim, dim),
        torch.randn(dim),
        torch.randn(dim, dim),
        torch.randn(dim),
    )
    query, key = (interleaved(project(x, w, b), rotated) for w, b in ((w_q, b_q), (w_k, b_k)))
    rope = Rope(config(dim=dim, heads=HEADS, rope_fraction=fraction))
    state = rope.prepare(torch.arange(LENGTH)[None])
    ours = [
        rope.rotate(
            project(x, to_half_split(w, HEADS, rotated), to_half_split(b, HEADS, rotated))[None],
            state,
        )[0]
        for w, b in ((w_q, b_q), (w_k, b_k))
    ]
    torch.testing.assert_close(ours[0] @ ours[1].mT, query @ key.mT, atol=2e-4, rtol=1e-5)
    unpermuted = (
        rope.rotate(project(x, w_q, b_q)[None], state)[0]
        @ rope.rotate(project(x, w_k, b_k)[None], state)[0].mT
    )
    assert float((unpermuted - query @ key.mT).abs().max()) > 1  # the test would fail without it


@pytest.mark.parametrize(("heads", "width"), [(5, 4), (3, 3), (3, 10)])
def test_mismatched_rows_are_refused(heads: int, width: int) -> None:
    with pytest.raises(
        ValueError, match=f"24 rows of {heads} heads cannot hold {width} rotated dimensions"
    ):
        to_half_split(torch.randn(24, 2), heads, width)
