"""Exact mathematical properties of position schemes, without training.

Tolerance: float32 rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from headlight_model.encoder import Encoder, EncoderOutput

Build = Callable[..., Encoder]
SCHEMES = (
    "none",
    "sinusoidal",
    "learned",
    "rope",
    "alibi",
    "relative",
    "rope+relative",
    "disentangled",
)
CLOSE = 1e-5
with_fixture = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def encode(model: Encoder, ids: Tensor, positions: Tensor | None = None) -> EncoderOutput:
    with torch.no_grad():
        out: EncoderOutput = model(ids, positions=positions, fused=False)
    return out


def moved(model: Encoder, ids: Tensor, order: Tensor) -> float:
    """Return the largest change by reordering inputs, over tokens and attention.

    The distance between f(reordered x) and reordered f(x).
    """
    plain, changed = encode(model, ids), encode(model, ids[:, order])
    distances = [(plain.tokens[:, order] - changed.tokens).abs().max()]
    for before, after in zip(plain.attention, changed.attention, strict=True):
        distances.append((before[:, :, order][..., order] - after).abs().max())
    return max(float(distance) for distance in distances)


@with_fixture
@given(order=st.integers(2, 20).flatmap(lambda n: st.permutations(range(n))))
def test_without_positions_permuted_tokens_give_permuted_vectors(
    order: list[int], encoder: Build
) -> None:
    assert (
        moved(encoder(positions="none"), torch.randint(0, 50, (2, len(order))), torch.tensor(order))
        < CLOSE
    )


@with_fixture
@given(length=st.integers(1, 40))
def test_symmetric_alibi_reversed_tokens_give_reversed_vectors(length: int, encoder: Build) -> None:
    order = torch.arange(length).flip(0)
    assert (
        moved(encoder(positions="alibi", heads=4), torch.randint(0, 50, (2, length)), order) < CLOSE
    )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_other_scheme_has_these_properties(scheme: str, encoder: Build) -> None:
    model, ids = encoder(positions=scheme), torch.randint(0, 50, (1, 12))
    reversal, permutation = (
        torch.arange(12).flip(0),
        torch.tensor([3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10]),
    )
    assert (moved(model, ids, reversal) < CLOSE) is (scheme in ("none", "alibi"))
    assert (moved(model, ids, permutation) < CLOSE) is (scheme == "none")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_only_relative_schemes_are_shift_invariant(scheme: str, encoder: Build) -> None:
    model, ids, at = (
        encoder(positions=scheme),
        torch.randint(0, 50, (1, 12)),
        torch.arange(12)[None],
    )
    here, there = encode(model, ids, at), encode(model, ids, at + 31)
    blind = float((here.tokens - there.tokens).abs().max()) < CLOSE
    assert blind is (scheme not in ("sinusoidal", "learned"))


@with_fixture
@given(length=st.integers(2, 20), at=st.integers(0, 18))
def test_a_causal_model_never_sees_what_follows(length: int, at: int, encoder: Build) -> None:
    at = min(at, length - 2)
    model, ids = encoder(causal=True, pooling="last"), torch.randint(0, 50, (1, length))
    later = ids.clone()
    later[0, at + 1 :] = (later[0, at + 1 :] + 1) % 50
    before, after = encode(model, ids), encode(model, later)
    torch.testing.assert_close(
        before.tokens[:, : at + 1], after.tokens[:, : at + 1], atol=2e-6, rtol=0
    )
    assert float((before.pooled - after.pooled).abs().max()) > 1e-4
    for weights in before.attention:
        assert (weights.triu(1) == 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, length))
