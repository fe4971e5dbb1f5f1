import numpy as np

from headlight.runtime.parity.golden_inputs import distance
from headlight.runtime.values import Floats


def floats(values: object) -> Floats:
    return np.array(values, dtype=np.float32)


def test_attention_and_pooled_are_measured_absolutely() -> None:
    assert distance("pooled", floats([100.0, 2.0]), floats([100.5, 2.0])) == 0.5
    assert distance("attention", floats([[0.25]]), floats([[0.75]])) == 0.5


def test_large_rows_are_measured_relatively_and_small_ones_absolutely() -> None:
    large, small = floats([[30.0, 40.0]]), floats([[0.3, 0.4]])
    np.testing.assert_allclose(
        distance("hidden", large + np.float32(1), large), 1 / np.sqrt(1250), rtol=1e-6
    )
    np.testing.assert_allclose(distance("tokens", small + np.float32(1), small), 1.0, rtol=1e-6)


def test_nan_has_infinite_distance() -> None:
    assert distance("pooled", floats([np.nan]), floats([0.0])) == np.inf
    assert distance("pooled", floats([0.0]), floats([np.nan])) == np.inf
