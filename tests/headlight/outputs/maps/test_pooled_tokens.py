"""Weights of tokens in the pooled vector, for every pooling."""

from __future__ import annotations

import numpy as np
import pytest

from headlight.errors import InvalidInput
from headlight.outputs.maps.reduction import pooling_weights, row_tokens
from headlight.outputs.maps.resolved_spec import resolve_attention
from headlight.outputs.maps.token_units import Places, place, pooled_token
from headlight.runtime.values import Architecture, Tokenized
from headlight.spec import AttentionSpec

ARCHITECTURE = Architecture(positions="none", layers=2, heads=3, dim=6, pooled_dim=6, vocab_size=9)
WEIGHTS = AttentionSpec(reduce=("pooling_weights",))


@pytest.mark.parametrize(
    ("pooling", "left_out", "expected"),
    [
        ("mean", 0, [1 / 4, 1 / 4, 1 / 4, 1 / 4]),
        ("mean", 2, [0, 0, 1 / 2, 1 / 2]),
        ("mean_sqrt_len", 0, [1 / 4, 1 / 4, 1 / 4, 1 / 4]),
        ("weighted_mean", 0, [1 / 10, 2 / 10, 3 / 10, 4 / 10]),
        ("weighted_mean", 2, [0, 0, 3 / 7, 4 / 7]),
        ("cls", 0, [1, 0, 0, 0]),
        ("cls", 2, [0, 0, 1, 0]),
        ("last", 2, [0, 0, 0, 1]),
    ],
)
def test_tokens_have_the_weight_that_pooling_gives_them(
    pooling: str, left_out: int, expected: list[float]
) -> None:
    choice = resolve_attention(WEIGHTS, ARCHITECTURE, pooling)
    weights = pooling_weights(choice, Places(4, left_out=left_out))
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_an_unknown_pooling_mode_is_an_error() -> None:
    choice = resolve_attention(WEIGHTS, ARCHITECTURE, "median")
    with pytest.raises(ValueError, match="median"):
        pooling_weights(choice, Places(4))
    with pytest.raises(ValueError, match=r"median.*weighted_mean"):
        pooled_token("median", 4)


def test_the_pooled_token_follows_an_excluded_prompt() -> None:
    tokenized = Tokenized(np.arange(5), 5, None, np.zeros(5, dtype=np.int64), left_out=3)
    rows = place(
        resolve_attention(AttentionSpec(queries="pooled"), ARCHITECTURE, "cls"), tokenized
    ).queries
    assert rows is not None
    assert rows.tokens.tolist() == [3]
    choice = resolve_attention(AttentionSpec(reduce=("pooled_row",)), ARCHITECTURE, "cls")
    assert row_tokens(choice, place(choice, tokenized)).tolist() == [3]


def test_max_pooling_has_no_token_weights() -> None:
    with pytest.raises(
        InvalidInput,
        match=r"^outputs.attention.reduce: this model pools by max, where no token has a weight",
    ):
        resolve_attention(WEIGHTS, ARCHITECTURE, "max")
