"""The sinusoidal table as a function, compared with the formula and with the scheme."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headlight_model.config import EncoderConfig
from headlight_model.positions.position_schemes import Sinusoidal
from headlight_model.positions.sinusoidal import positional_encoding

bases = st.floats(2.0, 1e6)


def naive(position: int, dim: int, base: float) -> list[float]:
    """Return one row in float64, element by element."""
    row = []
    for column in range(dim):
        angle = position / base ** (2 * (column // 2) / dim)
        row.append(math.cos(angle) if column % 2 else math.sin(angle))
    return row


@given(length=st.integers(0, 40), dim=st.integers(1, 33), base=bases)
def test_the_table_equals_the_formula_element_by_element(
    length: int, dim: int, base: float
) -> None:
    table = positional_encoding(length, dim, base)
    assert (table.shape, table.dtype) == ((length, dim), torch.float32)
    for position, row in enumerate(table.double().tolist()):
        assert row == pytest.approx(naive(position, dim, base), abs=2e-7, rel=0)


@given(length=st.integers(1, 600), dim=st.integers(1, 33), base=bases)
def test_the_scheme_adds_exactly_the_rows_of_the_table(length: int, dim: int, base: float) -> None:
    config = EncoderConfig(
        vocab_size=2, dim=dim, heads=1, layers=1, ffn_dim=1, positions="sinusoidal",
        sinusoidal_base=base, trained_length=1, max_length=1000,
    )  # fmt: skip
    scheme = Sinusoidal(config)
    added = scheme.embed(torch.zeros(1, length, dim), scheme.prepare(torch.arange(length)[None]))
    assert torch.equal(added[0], positional_encoding(length, dim, base))


@pytest.mark.parametrize("dim", [5, 64])
def test_far_positions_are_as_exact_as_near_ones(dim: int) -> None:
    table = positional_encoding(1_000_001, dim)
    for position in (255, 256, 99_999, 524_287, 999_999, 1_000_000):
        assert table[position].double().tolist() == pytest.approx(
            naive(position, dim, 10000.0), abs=2e-7, rel=0
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 4), "length is -1; it must be at least 0"),
        ((4, 0), "dim is 0; it must be at least 1"),
        ((4, 4, 0.0), "base is 0.0; it must be above 0 and finite"),
        ((4, 4, -2.0), "base is -2.0; it must be above 0"),
        ((4, 4, math.nan), "base is nan; it must be above 0 and finite"),
    ],
)
def test_a_bad_argument_is_refused_by_name(arguments: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        positional_encoding(*arguments)
