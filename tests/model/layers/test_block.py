from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from headlight_model.config import EncoderConfig
from headlight_model.layers.block import Block, FeedForward
from headlight_model.positions.position_schemes import Positions

Build = Callable[..., EncoderConfig]


def run(block: Block, x: Tensor) -> Tensor:
    out: Tensor = block.eval()(x, None, Positions(), (), fused=True)[0]
    return out


def silence(block: Block) -> None:
    """Make both sublayers return zeros, so that only residuals and norms remain."""
    for layer in (block.attention.project_out, block.feed_forward.down):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)


def test_pre_norm_does_not_normalise_the_residual_stream(config: Build) -> None:
    block, x = Block(config(norm="pre"), 0), 5 + 3 * torch.randn(2, 4, 16)
    silence(block)
    torch.testing.assert_close(run(block, x), x, atol=0, rtol=0)


def test_post_norm_norms_the_residual_stream(config: Build) -> None:
    block, x = Block(config(norm="post"), 0), 5 + 3 * torch.randn(2, 4, 16)
    out = run(block, x)
    torch.testing.assert_close(out.mean(-1), torch.zeros(2, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(out.var(-1, correction=0), torch.ones(2, 4), atol=1e-3, rtol=0)


def test_pre_norm_sublayers_see_a_normed_input(config: Build) -> None:
    """x + f(LN(x)): the output of f does not depend on the scale of x."""
    block, x = Block(config(norm="pre", norm_eps=1e-12), 0), torch.randn(2, 4, 16)
    nn.init.zeros_(block.feed_forward.down.weight)
    nn.init.zeros_(block.feed_forward.down.bias)
    torch.testing.assert_close(run(block, 100 * x) - 100 * x, run(block, x) - x, atol=5e-5, rtol=0)


@pytest.mark.parametrize("norm", ["pre", "post", "sandwich"])
def test_block_equals_the_explicit_composition(norm: str, config: Build) -> None:
    block, x = Block(config(norm=norm), 0).eval(), torch.randn(2, 4, 16)
    norms = [module for module in block.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == (4 if norm == "sandwich" else 2)
    for layer_norm in norms:
        nn.init.normal_(layer_norm.weight)  # so that the norms differ

    def attention(y: Tensor) -> Tensor:
        out: Tensor = block.attention(y, None, Positions(), (), fused=False)[0]
        return out

    if norm == "pre":
        middle = x + attention(block.attention_norm(x))
        expected = middle + block.feed_forward(block.feed_forward_norm(middle))
    elif norm == "sandwich":
        middle = x + block.attention_out_norm(attention(block.attention_norm(x)))
        added = block.feed_forward(block.feed_forward_norm(middle))
        expected = middle + block.feed_forward_out_norm(added)
    else:
        middle = block.attention_norm(x + attention(x))
        expected = block.feed_forward_norm(middle + block.feed_forward(middle))
    torch.testing.assert_close(run(block, x), expected, atol=1e-5, rtol=0)


def test_feed_forward_is_applied_per_position(config: Build) -> None:
    feed_forward, x = FeedForward(config()), torch.randn(1, 5, 16)
    changed = x.clone()
    changed[0, 2] += 1
    moved = (feed_forward(x) - feed_forward(changed)).abs().amax(-1)[0] > 1e-6
    assert moved.tolist() == [False, False, True, False, False]


def test_dropout_acts_in_training_only(config: Build) -> None:
    block, x = Block(config(dropout=0.5), 0), torch.randn(2, 4, 16)
    torch.testing.assert_close(run(block, x), run(block, x), atol=0, rtol=0)
    block.train()
    first, second = (block(x, None, Positions(), (), fused=True)[0] for _ in range(2))
    assert not torch.equal(first, second)
