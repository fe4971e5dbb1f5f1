import numpy as np

from headlight.runtime.parity import distance


def test_attention_and_pooled_are_measured_absolutely() -> None:
    assert distance("pooled", np.float32([100.0, 2.0]), np.float32([100.5, 2.0])) == 0.5
    assert distance("attention", np.float32([[0.25]]), np.float32([[0.75]])) == 0.5


def test_rows_of_large_numbers_are_measured_by_their_size_and_small_ones_absolutely() -> None:
    large, small = np.float32([[30.0, 40.0]]), np.float32([[0.3, 0.4]])
    np.testing.assert_allclose(distance("hidden", large + np.float32(1), large), 1 / np.sqrt(1250), rtol=1e-6)
    np.testing.assert_allclose(distance("tokens", small + np.float32(1), small), 1.0, rtol=1e-6)


def test_what_is_not_a_number_is_infinitely_far() -> None:
    assert distance("pooled", np.float32([np.nan]), np.float32([0.0])) == np.inf
    assert distance("pooled", np.float32([0.0]), np.float32([np.nan])) == np.inf
