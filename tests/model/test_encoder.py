from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from headlight_model.encoder import Encoder, EncoderOutput

Build = Callable[..., Encoder]

EVERY_KIND: list[dict[str, Any]] = [
    *(
        dict(zip(("positions", "norm"), kind, strict=True))
        for kind in itertools.product(
            ("none", "sinusoidal", "learned", "rope", "alibi", "relative", "disentangled"),
            ("pre", "post"),
        )
    ),
    {"norm": "pre", "pooling": "cls"},
    {"norm": "post", "pooling": "cls"},
    {"causal": True, "pooling": "last", "norm_type": "rms", "ffn": "gated", "activation": "silu"},
    {"positions": "alibi", "alibi": "signed"},
    {"positions": "learned+relative", "relative_per_layer": True},
    {"positions": "rope+alibi"},
    {"rope_fraction": 0.5, "attention_bias": False},
]


def encode(
    model: Encoder, ids: Tensor, mask: Tensor | None = None, *, fused: bool = False
) -> EncoderOutput:
    with torch.no_grad():
        out: EncoderOutput = model(ids, mask, fused=fused)
    return out


def ragged(lengths: list[int], width: int, pad_with: int) -> tuple[Tensor, Tensor]:
    """Return random texts of the lengths, right-padded to `width` -> ids, mask: each [B, width]."""
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).long()
    return torch.where(mask == 1, torch.randint(0, 50, mask.shape), pad_with), mask


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: "-".join(map(str, kind.values())))
def test_outputs_have_the_documented_shapes(kind: dict[str, Any], encoder: Build) -> None:
    model = encoder(layers=3, **kind)
    out = encode(model, torch.randint(0, 50, (4, 9)))
    assert out.pooled.shape == (4, 16)
    assert out.tokens.shape == (4, 9, 16)
    assert [hidden.shape for hidden in out.hidden] == [(4, 9, 16)] * 4
    assert [weights.shape for weights in out.attention] == [(4, 2, 9, 9)] * 3
    torch.testing.assert_close(out.pooled.norm(dim=-1), torch.ones(4))


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: "-".join(map(str, kind.values())))
def test_fused_form_gives_the_same_and_no_weights(kind: dict[str, Any], encoder: Build) -> None:
    model = encoder(**kind)
    ids, mask = ragged([9, 4], 9, pad_with=0)
    plain, fused = encode(model, ids, mask), encode(model, ids, mask, fused=True)
    assert fused.attention == ()
    torch.testing.assert_close(plain.pooled, fused.pooled, atol=2e-6, rtol=0)
    torch.testing.assert_close(plain.tokens, fused.tokens, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: "-".join(map(str, kind.values())))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    spare=st.integers(0, 5),
    pad=st.integers(0, 49),
)
def test_padding_and_batch_mates_do_not_change_a_text(
    kind: dict[str, Any], encoder: Build, lengths: list[int], spare: int, pad: int
) -> None:
    model = encoder(**kind)
    ids, mask = ragged(lengths, max(lengths) + spare, pad_with=pad)
    together = encode(model, ids, mask)
    for row, length in enumerate(lengths):
        alone = encode(model, ids[row : row + 1, :length])
        torch.testing.assert_close(together.pooled[row], alone.pooled[0], atol=2e-6, rtol=0)
        torch.testing.assert_close(
            together.tokens[row, :length], alone.tokens[0], atol=2e-5, rtol=0
        )
        for padded, bare in zip(together.attention, alone.attention, strict=True):
            torch.testing.assert_close(padded[row, :, :length, :length], bare[0], atol=5e-6, rtol=0)


def test_attention_rows_are_queries_and_ignore_padding(encoder: Build) -> None:
    ids, mask = ragged([7, 3], 7, pad_with=0)
    for weights in encode(encoder(), ids, mask).attention:
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 7))
        assert (weights[1, :, :, 3:] == 0).all()


def test_token_vectors_are_zero_at_padding(encoder: Build) -> None:
    ids, mask = ragged([7, 3], 7, pad_with=0)
    assert (encode(encoder(), ids, mask).tokens[1, 3:] == 0).all()


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
@pytest.mark.parametrize("fused", [True, False])
def test_a_text_of_padding_alone_gives_zeros_and_does_not_affect_others(
    pooling: str, fused: bool, encoder: Build
) -> None:
    model = encoder(pooling=pooling)
    ids, mask = ragged([5, 0], 5, pad_with=0)
    out = encode(model, ids, mask, fused=fused)
    assert (out.pooled[1] == 0).all()
    assert all((weights[1] == 0).all() for weights in out.attention)
    torch.testing.assert_close(
        out.pooled[:1], encode(model, ids[:1], fused=fused).pooled, atol=2e-6, rtol=0
    )


def test_boolean_and_integer_masks_mean_the_same(encoder: Build) -> None:
    model = encoder()
    ids, mask = ragged([5, 2], 5, pad_with=0)
    assert torch.equal(encode(model, ids, mask).pooled, encode(model, ids, mask.bool()).pooled)


@pytest.mark.parametrize(("scaled", "factor"), [(True, math.sqrt(16)), (False, 1.0)])
def test_embeddings_are_scaled_by_the_root_of_their_width(
    scaled: bool, factor: float, encoder: Build
) -> None:
    # Rope adds nothing to the embeddings, and pre-norm does not norm them.
    model = encoder(scale_embeddings=scaled)
    ids = torch.randint(0, 50, (1, 6))
    torch.testing.assert_close(encode(model, ids).hidden[0], model.embedding(ids) * factor)


def test_hidden_states_are_the_residual_stream(encoder: Build) -> None:
    """In pre-norm, the token vectors are the last state, normed.

    In post-norm every state is normed already.
    """
    ids = torch.randint(0, 50, (1, 6))
    pre, post = encoder(norm="pre"), encoder(norm="post")
    out = encode(pre, ids)
    torch.testing.assert_close(pre.final_norm(out.hidden[-1]), out.tokens)
    for hidden in encode(post, ids).hidden:
        torch.testing.assert_close(
            hidden.var(-1, correction=0), torch.ones(1, 6), atol=1e-3, rtol=0
        )


def test_unnormalised_pooling_is_the_plain_mean(encoder: Build) -> None:
    ids, mask = ragged([6, 2], 6, pad_with=0)
    out = encode(encoder(normalize=False), ids, mask)
    torch.testing.assert_close(out.pooled[1], out.tokens[1, :2].mean(0))


def test_more_tokens_than_allowed_are_refused(encoder: Build) -> None:
    model = encoder(max_length=64)
    assert encode(model, torch.zeros(1, 64, dtype=torch.long)).pooled.isfinite().all()
    with pytest.raises(ValueError, match="65 tokens are more than max_length 64"):
        encode(model, torch.zeros(1, 65, dtype=torch.long))


@pytest.mark.parametrize("kind", EVERY_KIND, ids=lambda kind: "-".join(map(str, kind.values())))
def test_every_parameter_gets_a_gradient(kind: dict[str, Any], encoder: Build) -> None:
    model = encoder(normalize=False, **kind)
    out: EncoderOutput = model(torch.randint(0, 50, (2, 8)), fused=True)
    out.pooled.pow(3).sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    idle = [
        name
        for name, value in model.named_parameters()
        if value.grad is None or not value.grad.any()
    ]
    assert idle == []
