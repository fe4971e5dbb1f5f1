from __future__ import annotations

import numpy as np

from headlight_model.evaluate.compression import as_bits, as_bytes, compressed, truncated
from headlight_model.evaluate.ranking import Floats


def vectors(count: int, seed: int) -> Floats:
    made = np.random.default_rng(seed).normal(size=(count, 64))
    unit: Floats = made / np.linalg.norm(made, axis=1, keepdims=True)
    return unit


def test_a_truncated_vector_has_unit_length() -> None:
    found = truncated(vectors(5, 0), 16)
    assert found.shape == (5, 16)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)


def test_int8_is_close_and_within_its_bounds() -> None:
    values = vectors(200, 0)
    found = as_bytes(values, values.min(axis=0), values.max(axis=0))
    assert (
        np.abs(found - values).max()
        <= (values.max(axis=0) - values.min(axis=0)).max() / 255 / 2 + 1e-12
    )
    wider = as_bytes(values * 3, values.min(axis=0), values.max(axis=0))
    assert wider.max() <= values.max() + 1e-12


def test_bits_are_signs() -> None:
    assert as_bits(np.array([[0.2, -0.1, 0.0]])).tolist() == [[1.0, -1.0, -1.0]]


def test_every_form_retrieves_a_text_by_itself() -> None:
    values = vectors(100, 0)
    found = compressed(values, values, (16, 32))
    assert set(found) == {"16 dimensions", "32 dimensions", "int8", "binary"}
    for scores in found.values():
        assert (scores.argmax(axis=1) == np.arange(100)).all()
